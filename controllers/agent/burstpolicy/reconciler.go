package burstpolicy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/owned"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

const (
	// untilSynced is the delay before the next reconcile while the pods have not been counted yet.
	untilSynced = time.Second
	// untilCordoned is the delay between the cordon of a node and the next plan. That plan sees the
	// cordon, and says when to check that the node has no pods.
	untilCordoned = time.Second
	// untilEmpty is the delay before the next check of a cordoned node on which a pod still runs.
	untilEmpty = 5 * time.Second
	// never means that only an event triggers the next reconcile.
	never time.Duration = 0
)

// Reconcile takes the next step for one BurstPolicy. It also makes Options.Pods count the pods that
// all policies select.
func (r *Reconciler) Reconcile(ctx context.Context, req reconcile.Request) (ctrl.Result, error) {
	if err := r.selectPods(ctx); err != nil {
		return ctrl.Result{}, err
	}
	policy := &agentv1alpha1.BurstPolicy{}
	err := r.client.Get(ctx, req.NamespacedName, policy)
	if apierrors.IsNotFound(err) || err == nil && policy.DeletionTimestamp != nil {
		// The policy was deleted. Kubernetes deletes its requests, because the policy owns them.
		delete(r.told, req.NamespacedName)
		delete(r.refused, req.NamespacedName)
		r.forgetExcept(req.NamespacedName, nil)
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	select {
	case <-r.options.Pods.Synced():
	default:
		return ctrl.Result{RequeueAfter: untilSynced}, nil
	}
	return patch.Requeue(r.takeStep(ctx, policy))
}

// selectPods makes Options.Pods count the pods that the existing policies select.
func (r *Reconciler) selectPods(ctx context.Context) error {
	var list agentv1alpha1.BurstPolicyList
	if err := r.client.List(ctx, &list); err != nil {
		return fmt.Errorf("list burst policies: %w", err)
	}
	var selections []burst.Selection
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil {
			selections = append(selections, burst.Selection{Namespace: p.Namespace, Name: p.Name, Selector: p.Spec.Selector})
		}
	}
	r.options.Pods.SelectBursts(selections)
	return nil
}

func (r *Reconciler) takeStep(ctx context.Context, policy *agentv1alpha1.BurstPolicy) (time.Duration, error) {
	s, err := r.observePolicy(ctx, policy)
	if invalid, ok := errors.AsType[*invalidSpec](err); ok {
		return never, r.showInvalid(ctx, policy, invalid)
	}
	if err != nil {
		return never, err
	}
	if err := r.openNodes(ctx, s); err != nil {
		return never, err
	}
	plan := burst.MakePlan(s.rules, s.grouping.Groups, s.views, s.taken, s.now)
	again := never
	if !plan.Next.IsZero() {
		again = max(plan.Next.Sub(s.now), time.Millisecond)
	}
	tidied := r.tidyUp(ctx, s, &plan, &again)
	r.tellSkipped(s)
	// The change is recorded before it is made. If the agent is killed in between, the pause until the
	// next one is kept, and the change is planned again afterwards.
	if err := r.saveStatus(ctx, s, &plan); err != nil || plan.Change == nil {
		return again, errors.Join(tidied, err)
	}
	if plan.Change.Action == agentv1alpha1.BurstEnd {
		again = untilCordoned
	}
	return again, errors.Join(tidied, r.makeChange(ctx, s, plan.Change))
}

// openNodes labels the virtual nodes of the requests, so that the pods of the policy may use them.
// It skips cordoned nodes.
func (r *Reconciler) openNodes(ctx context.Context, s *scene) error {
	for _, rr := range s.requests {
		for i := range rr.nodes {
			node := &rr.nodes[i]
			if node.Labels[agentv1alpha1.BurstLabel] == s.policy.Name || node.Spec.Unschedulable {
				continue
			}
			before := node.DeepCopy()
			node.Labels[agentv1alpha1.BurstLabel] = s.policy.Name
			if err := r.client.Patch(ctx, node, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("label virtual node %q: %w", node.Name, err)
			}
			failpoint.Hit(failpoint.BurstNodeOpened)
		}
	}
	return nil
}

// tidyUp carries out Forget, Finish and Revert of a plan, which need no pause between them. A request that it cannot
// delete or change does not keep it from the others.
func (r *Reconciler) tidyUp(ctx context.Context, s *scene, plan *burst.Plan, again *time.Duration) error {
	var errs []error
	for _, name := range plan.Forget {
		errs = append(errs, owned.DeleteRequest(ctx, r.client, s.findRequest(name).ResourceRequest))
	}
	for _, name := range plan.Revert {
		errs = append(errs, r.revertRequest(ctx, s.findRequest(name)))
	}
	for _, name := range plan.Finish {
		rr := s.findRequest(name)
		empty, err := r.areEmpty(ctx, rr)
		switch {
		case err != nil:
		case !empty:
			if *again == never || *again > untilEmpty {
				*again = untilEmpty
			}
		default:
			if err = owned.DeleteRequest(ctx, r.client, rr.ResourceRequest); err == nil {
				failpoint.Hit(failpoint.BurstEnded)
			}
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// areEmpty reports whether the nodes of a request are cordoned and have no pods of workloads. It
// asks the API server: the scheduler may have bound a pod before it saw that the node was cordoned.
func (r *Reconciler) areEmpty(ctx context.Context, rr *request) (bool, error) {
	for i := range rr.nodes {
		name := rr.nodes[i].Name
		node := &corev1.Node{}
		err := r.options.Reader.Get(ctx, client.ObjectKey{Name: name}, node)
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("read virtual node %q: %w", name, err)
		}
		if err == nil && !node.Spec.Unschedulable {
			return false, nil
		}
		var pods corev1.PodList
		if err := r.options.Reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": name}); err != nil {
			return false, fmt.Errorf("list pods on node %q: %w", name, err)
		}
		for j := range pods.Items {
			if pod := &pods.Items[j]; capacity.IsGuest(&pod.ObjectMeta) && !capacity.Finished(pod) {
				return false, nil
			}
		}
	}
	return true, nil
}

// revertRequest sets the spec of a request back to the granted amounts and marks the request as
// full, because its provider refused to enlarge it.
func (r *Reconciler) revertRequest(ctx context.Context, rr *request) error {
	before := rr.DeepCopy()
	burst.Revert(rr.ResourceRequest)
	if err := r.client.Patch(ctx, rr.ResourceRequest, patch.IfUnchanged(before)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("patch resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	failpoint.Hit(failpoint.BurstReverted)
	return nil
}

func (r *Reconciler) makeChange(ctx context.Context, s *scene, c *burst.Change) error {
	var err error
	switch c.Action {
	case agentv1alpha1.BurstCreate:
		err = r.createRequest(ctx, s, c)
	case agentv1alpha1.BurstGrow:
		err = r.growRequest(ctx, s, c)
	case agentv1alpha1.BurstEnd:
		err = r.endRequest(ctx, s, c)
	}
	if apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) {
		why := message.Clip(err.Error(), message.MaxNote)
		r.options.Recorder.Eventf(s.policy, nil, corev1.EventTypeWarning, agentv1alpha1.ReasonInvalid, string(c.Action), "%s", why)
		// Retrying at once would fail again, and would leave no change for other groups.
		key := client.ObjectKeyFromObject(s.policy)
		if r.refused[key] == nil {
			r.refused[key] = map[string]refusal{}
		}
		r.refused[key][cmp.Or(c.Group, c.Request)] = refusal{s.now.Add(burst.RetryAfter), why}
		return nil
	}
	return err
}

func (r *Reconciler) createRequest(ctx context.Context, s *scene, c *burst.Change) error {
	want, template := s.grouping.Wants[c.Group], &s.policy.Spec.Template.Spec
	each := want.Shape.Clone()
	delete(each, corev1.ResourcePods)
	rr := &agentv1alpha1.ResourceRequest{
		ObjectMeta: owned.MetadataOf(s.policy, agentv1alpha1.GroupVersion.WithKind("BurstPolicy"), c.Request),
		Spec: agentv1alpha1.ResourceRequestSpec{
			Priority: template.Priority, QueuePolicy: template.QueuePolicy, QueueTimeout: template.QueueTimeout, Healing: template.Healing,
			Offloading: template.Offloading.DeepCopy(),
			Requirements: brokerv1alpha1.Requirements{
				Group: template.Group, Constraints: want.Constraints,
				PodShapes: []brokerv1alpha1.PodShape{{Count: int32(c.Pods), Resources: brokerv1alpha1.PodResources(each.ToResourceList())}},
			},
		},
	}
	burst.SetPods(&rr.Spec, want.Shape, c.Pods)
	if err := r.client.Create(ctx, rr); err != nil {
		return fmt.Errorf("create resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	failpoint.Hit(failpoint.BurstRequested)
	r.options.Recorder.Eventf(s.policy, rr, corev1.EventTypeNormal, string(c.Action), string(c.Action), "resource request %q asks for room for %d pods", rr.Name, c.Pods)
	return nil
}

func (r *Reconciler) growRequest(ctx context.Context, s *scene, c *burst.Change) error {
	rr := s.findRequest(c.Request)
	before := rr.DeepCopy()
	burst.SetPods(&rr.Spec, burst.ShapeOf(rr.ResourceRequest), c.Pods)
	if err := r.client.Patch(ctx, rr.ResourceRequest, patch.IfUnchanged(before)); err != nil {
		return fmt.Errorf("enlarge resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	failpoint.Hit(failpoint.BurstGrown)
	r.options.Recorder.Eventf(s.policy, rr.ResourceRequest, corev1.EventTypeNormal, string(c.Action), string(c.Action), "resource request %q asks for room for %d pods", rr.Name, c.Pods)
	return nil
}

// endRequest ends an idle request. If the request has a node, endRequest only cordons the node. A
// later reconcile deletes the request after it has checked that no pod was bound to the node before
// the cordon.
func (r *Reconciler) endRequest(ctx context.Context, s *scene, c *burst.Change) error {
	rr := s.findRequest(c.Request)
	r.options.Recorder.Eventf(s.policy, rr.ResourceRequest, corev1.EventTypeNormal, string(c.Action), string(c.Action), "resource request %q ends: no pod has used it for %s", rr.Name, s.rules.IdleAfter)
	if len(rr.nodes) == 0 {
		if err := owned.DeleteRequest(ctx, r.client, rr.ResourceRequest); err != nil {
			return err
		}
		failpoint.Hit(failpoint.BurstEnded)
		return nil
	}
	for i := range rr.nodes {
		node := &rr.nodes[i]
		if node.Spec.Unschedulable {
			continue
		}
		before := node.DeepCopy()
		node.Spec.Unschedulable = true
		if err := r.client.Patch(ctx, node, patch.IfUnchanged(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("cordon virtual node %q: %w", node.Name, err)
		}
		failpoint.Hit(failpoint.BurstCordoned)
	}
	return nil
}
