package providerinstruction

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placeholder"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Placeholders configures the pods that keep reserved capacity. Placeholders are deleted when their
// placement ends, or when its instruction no longer asks for them.
type Placeholders struct {
	Namespace string
	// Image is a container image that does nothing. PriorityClass protects placeholders from
	// preemption by ordinary pods. Both are needed only if an instruction asks for placeholders.
	Image, PriorityClass string
	// Pods caches the placeholders and the pods that Liqo runs here.
	Pods cache.Cache
	// Room returns what pods can still request on the given nodes. Placeholders count as nothing.
	Room func(nodes []string) map[string]quantity.Amounts
	// Groups returns the groups of nodes that this cluster creates on demand.
	Groups func() []offering.NodeGroup
	// Confine restricts a pod to the nodes on which pods of the given placement may run.
	Confine func(*corev1.PodSpec, *agentv1alpha1.ProviderInstructionSpec)
}

// placeholderKeeper creates and deletes the placeholders of all placements.
type placeholderKeeper struct {
	*Reconciler
	opts *Placeholders
	pods client.Reader
}

func (r *Reconciler) setupPlaceholders(mgr manager.Manager) error {
	if r.opts.Placeholders == nil {
		return nil
	}
	p := &placeholderKeeper{Reconciler: r, opts: r.opts.Placeholders, pods: r.opts.Placeholders.Pods}
	return wholeController(mgr, "placeholder").
		WatchesRawSource(source.Kind(p.opts.Pods, &corev1.Pod{}, wakesWhole[*corev1.Pod]())).
		Complete(whole{keep: p.applyPlan})
}

// applyPlan carries out one plan for all placements. The changes to pods cause events, which
// trigger the next pass.
func (r *placeholderKeeper) applyPlan(ctx context.Context) error {
	view, instructions, err := r.observeCluster(ctx)
	if err != nil {
		return err
	}
	plan := placeholder.Decide(view)
	aspects := map[string]placement.Aspect{}
	for name := range view.Reserved {
		aspects[name] = holdAspect(plan.Held[name])
	}
	r.enqueueAll(r.holds.replaceAll(aspects))
	return r.carryOutPlan(ctx, plan, instructions)
}

// observeCluster returns the input of the plan and, by name, the instructions whose capacity
// placeholders must keep.
func (r *placeholderKeeper) observeCluster(ctx context.Context) (placeholder.View, map[string]*agentv1alpha1.ProviderInstruction, error) {
	view := placeholder.View{Reserved: map[string]quantity.Amounts{}, Parts: map[string][]quantity.Amounts{}}
	placements := map[string]*agentv1alpha1.ProviderInstruction{}
	var instructions agentv1alpha1.ProviderInstructionList
	if err := r.client.List(ctx, &instructions, client.InNamespace(r.Reconciler.opts.Namespace)); err != nil {
		return view, nil, err
	}
	for i := range instructions.Items {
		inst := &instructions.Items[i]
		if !needsPlaceholders(inst) {
			continue
		}
		placements[inst.Name] = inst
		if inst.AwaitsNewNodes() {
			r.opts.reserveNewNodes(&view, inst)
			continue
		}
		amounts, err := quantity.FromResourceList(inst.Kept())
		if err != nil {
			return view, nil, fmt.Errorf("placement %q: %w", inst.Name, err)
		}
		view.Reserved[inst.Name] = amounts
	}
	var pods corev1.PodList
	if err := r.pods.List(ctx, &pods); err != nil {
		return view, nil, err
	}
	var nodes []string
	for i := range pods.Items {
		pod := &pods.Items[i]
		nodes = append(nodes, pod.Spec.NodeName, pod.Status.NominatedNodeName)
		if placement := pod.Labels[agentv1alpha1.PlaceholderLabel]; placement != "" && pod.Namespace == r.opts.Namespace {
			view.Placeholders = append(view.Placeholders, placeholderOf(pod, placement))
		} else if use, ok := capacity.UseOf(pod); ok && !use.Over {
			view.Pods = append(view.Pods, userOf(pod, use))
		}
	}
	view.Room = r.opts.Room(nodes)
	return view, placements, nil
}

func placeholderOf(pod *corev1.Pod, placement string) placeholder.Placeholder {
	h := placeholder.Placeholder{Name: pod.Name, Placement: placement, Node: pod.Spec.NodeName, Nominated: pod.Status.NominatedNodeName, Going: pod.DeletionTimestamp != nil}
	h.Spent = capacity.Finished(pod)
	amounts, err := quantity.FromResourceList(pod.Spec.Containers[0].Resources.Requests)
	if err == nil {
		h.Amounts = amounts
	}
	return h
}

func userOf(pod *corev1.Pod, use capacity.Use) placeholder.Pod {
	p := placeholder.Pod{
		NamespacedName: client.ObjectKeyFromObject(pod), Placement: use.Placement, Request: use.Request,
		Node: pod.Spec.NodeName, Nominated: pod.Status.NominatedNodeName,
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			p.Stuck = c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
		}
	}
	return p
}

// carryOutPlan creates placeholders, nominates pods for nodes, and deletes placeholders, in this
// order. A pod is nominated before a placeholder is deleted to make room for it, so that no other
// pod takes the room.
func (r *placeholderKeeper) carryOutPlan(ctx context.Context, plan placeholder.Plan, placements map[string]*agentv1alpha1.ProviderInstruction) error {
	for _, h := range plan.Create {
		if err := r.client.Create(ctx, r.opts.podFor(h, placements[h.Placement])); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("making placeholder %q: %w", h.Name, err)
		}
		if h.Nominated != "" {
			plan.Nominate = append(plan.Nominate, placeholder.Nomination{Pod: types.NamespacedName{Namespace: r.opts.Namespace, Name: h.Name}, Node: h.Nominated})
		}
	}
	for _, n := range plan.Nominate {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.Pod.Namespace, Name: n.Pod.Name}}
		patch := fmt.Appendf(nil, `{"status":{"nominatedNodeName":%q}}`, n.Node)
		if err := r.client.Status().Patch(ctx, pod, client.RawPatch(types.MergePatchType, patch)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("nominating pod %q for node %q: %w", n.Pod, n.Node, err)
		}
	}
	for _, name := range plan.Delete {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.opts.Namespace, Name: name}}
		if err := r.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting placeholder %q: %w", name, err)
		}
	}
	return nil
}

// podFor returns the pod for a placeholder. It may run on the same nodes as the pods of the
// placement. Its container does nothing, meets the restricted Pod Security Standard, and terminates
// at once when the pod is deleted.
func (p *Placeholders) podFor(h placeholder.Placeholder, inst *agentv1alpha1.ProviderInstruction) *corev1.Pod {
	requests, limits := h.Amounts.ToResourceList(), corev1.ResourceList{}
	for name, amount := range requests {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory && name != corev1.ResourceEphemeralStorage {
			limits[name] = amount // Kubernetes requires limits for extended resources
		}
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: h.Name, Labels: map[string]string{
			agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue, agentv1alpha1.PlaceholderLabel: h.Placement,
		}},
		Spec: corev1.PodSpec{
			PriorityClassName:             p.PriorityClass,
			TerminationGracePeriodSeconds: new(int64(0)),
			AutomountServiceAccountToken:  new(false),
			EnableServiceLinks:            new(false),
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: new(true), RunAsUser: new(int64(65535)), RunAsGroup: new(int64(65535)),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: "pause", Image: p.Image,
				Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
			}},
		},
	}
	if inst.AwaitsNewNodes() {
		p.confineToGroups(&pod.Spec, h, inst.Status.NewNodes)
	} else {
		p.Confine(&pod.Spec, &inst.Spec)
	}
	return pod
}
