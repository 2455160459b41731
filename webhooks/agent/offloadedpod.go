package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
)

// Paths of the webhooks for pods that Liqo creates in offloaded namespaces.
const (
	OffloadedPodPath = "/validate--v1-pod-offloaded"
	ConfinedPodPath  = "/mutate--v1-pod-offloaded"
)

// OffloadedPods configures the webhooks for offloaded pods: pods that Liqo runs here for other clusters.
type OffloadedPods struct {
	InstructionNamespace string
	// Book counts the pods of every placement. Synced reports whether Book has counted all existing pods.
	Book   *enforcement.Book
	Synced func() bool
	// Nodes returns which nodes this cluster lends. It returns false if they are not known yet.
	Nodes func() (enforcement.LentNodes, bool)
	// Guards reports whether every pod that a consumer runs in this cluster must belong to a placement.
	Guards func(ctx context.Context, consumer string) (bool, error)
	// ForbidHostAccess refuses pods that reach their node: the admission policies refuse their ShadowPods already, if
	// nobody has removed the policies.
	ForbidHostAccess bool
	Clock            clock.PassiveClock
	// Pods lists the pods of consumers. DeleteShadowPod deletes the ShadowPod, with this UID, of a pod.
	// HasShadowPod reports whether that ShadowPod exists.
	Pods            client.Reader
	HasShadowPod    func(ctx context.Context, pod types.NamespacedName, shadowPod types.UID) (bool, error)
	DeleteShadowPod func(ctx context.Context, pod types.NamespacedName, shadowPod types.UID) error
}

// SetupOffloadedPods registers the webhooks that limit the pods of consumers to what was granted and to the nodes that
// this cluster lends. They ignore pods that no ShadowPod controls: a consumer cannot create such pods.
func SetupOffloadedPods(mgr ctrl.Manager, o OffloadedPods) error {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "agent_pods_refused_total",
		Help: "Refused creations of consumers' pods that exceed the grant.",
	}, []string{"consumer"})
	if err := metrics.Registry.Register(refused); err != nil {
		return err
	}
	j := &podJudge{OffloadedPods: o, cache: mgr.GetClient(), reader: mgr.GetAPIReader(), refused: refused}
	server := mgr.GetWebhookServer()
	server.Register(OffloadedPodPath, &admission.Webhook{Handler: admission.HandlerFunc(j.admitPod)})
	server.Register(ShadowPodPath, &admission.Webhook{Handler: admission.HandlerFunc(j.makeRoom)})
	server.Register(ConfinedPodPath, &admission.Webhook{Handler: admission.HandlerFunc(j.confinePod)})
	return nil
}

// podJudge decides about pods that Liqo creates here for other clusters.
type podJudge struct {
	OffloadedPods
	cache, reader client.Reader
	refused       *prometheus.CounterVec
}

// admitPod admits a pod if it fits into the grant of its placement, next to the other pods of the placement.
func (j *podJudge) admitPod(ctx context.Context, req admission.Request) admission.Response {
	pod, err := offloadedPod(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod == nil {
		return admission.Allowed("")
	}
	if !j.Synced() {
		return admission.Errored(http.StatusServiceUnavailable, errors.New("the agent has not read all pods yet, try again"))
	}
	consumer, err := j.consumerOf(ctx, req.Namespace)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	p := enforcement.PodOf(pod)
	if p.Placement == "" {
		return j.admitUnplaced(ctx, consumer)
	}
	inst, err := j.instructionOf(ctx, p.Placement)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	lent, _ := j.Nodes()
	if why := describeMismatch(pod, p.Placement, inst, consumer, lent); why != "" {
		return admission.Denied(why)
	}
	if what := findHostAccess(&pod.Spec); j.ForbidHostAccess && what != "" {
		return admission.Denied(fmt.Sprintf("a pod of a consumer may not have %s: remove it, or the operator of this cluster sets guard.podSecurity=off", what))
	}
	limits, err := enforcement.LimitsOf(inst.Kept())
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("placement %q: %w", p.Placement, err))
	}
	// Not only the API server reaches this webhook. Without this check, reviews of invented pods would take the room of
	// real ones.
	known, err := j.HasShadowPod(ctx, p.NamespacedName, p.Owner)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if !known {
		return admission.Denied(fmt.Sprintf("there is no ShadowPod %q with UID %q, which this pod names as its owner", p.NamespacedName, p.Owner))
	}
	verdict := j.Book.Admit(p, limits, j.Clock.Now(), req.DryRun != nil && *req.DryRun)
	if !verdict.Fits {
		j.refused.WithLabelValues(consumer).Inc()
		return admission.Denied(describeExcess(pod, p.Placement, verdict, limits))
	}
	return admission.Allowed("")
}

// describeMismatch explains why a consumer's pod cannot belong to the placement of inst, whatever amounts it requests.
// It returns "" if the pod can belong to it. inst is nil if the placement has no instruction.
func describeMismatch(pod *corev1.Pod, placement string, inst *agentv1alpha1.ProviderInstruction, consumer string, lent enforcement.LentNodes) string {
	if inst == nil || inst.Spec.RequesterClusterID != consumer || inst.Ended() || !inst.Status.Enforced {
		return fmt.Sprintf("cluster %q has no live reservation for placement %q: ask for one, or delete the pod", consumer, placement)
	}
	if why := describeMalformed(pod); why != "" {
		return why
	}
	// The mutating webhook adds this affinity. The check is for a cluster in which that webhook is missing, or in which
	// another webhook has removed the affinity.
	if nodes := wire.FromLabels(inst.Spec.NodeSelector); !enforcement.IsBound(&pod.Spec, nodes) {
		return fmt.Sprintf("placement %q was granted for nodes with %s and the pod may run elsewhere: this cluster's operator must let the agent's mutating webhook add the node affinity",
			placement, labels.FormatLabels(nodes))
	}
	lent = lent.For(&inst.Spec)
	if key := lent.StrangeToleration(&pod.Spec); key != "" {
		return fmt.Sprintf("placement %q was not granted a toleration of %s: name it in constraints.tolerations of the ResourceRequest, or remove it from the pod", placement, key)
	}
	return ""
}

// instructionOf returns the ProviderInstruction of a placement, or nil if there is none.
func (j *podJudge) instructionOf(ctx context.Context, placement string) (*agentv1alpha1.ProviderInstruction, error) {
	inst := &agentv1alpha1.ProviderInstruction{}
	err := j.cache.Get(ctx, client.ObjectKey{Namespace: j.InstructionNamespace, Name: placement}, inst)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading ProviderInstruction %q: %w", placement, err)
	}
	return inst, nil
}

// admitUnplaced decides about a pod without a placement. It refuses the pod if the agent made the consumer's tenant
// namespace. Otherwise the pod may belong to a ResourceSlice that the agent does not control, so it is admitted.
func (j *podJudge) admitUnplaced(ctx context.Context, consumer string) admission.Response {
	guarded, err := j.Guards(ctx, consumer)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if guarded {
		return admission.Denied(fmt.Sprintf("pods of cluster %q belong to a placement of a reservation, this one names none", consumer))
	}
	return admission.Allowed("")
}

// describeMalformed explains why a pod is refused regardless of the grant: it names a node, or its requests cannot be
// counted. It returns "" if neither applies.
func describeMalformed(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return fmt.Sprintf("a pod of a consumer leaves the choice of its node to the scheduler, this one names node %q", pod.Spec.NodeName)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if _, err := quantity.FromResourceList(c.Resources.Requests); err != nil {
			return fmt.Sprintf("container %q: %s", c.Name, err)
		}
	}
	return ""
}

// findHostAccess returns a field with which a pod reaches its node beyond what a container may, "" if there is none.
func findHostAccess(spec *corev1.PodSpec) string {
	switch {
	case spec.HostNetwork:
		return "hostNetwork"
	case spec.HostPID:
		return "hostPID"
	case spec.HostIPC:
		return "hostIPC"
	}
	for i := range spec.Volumes {
		if spec.Volumes[i].HostPath != nil {
			return fmt.Sprintf("volume %q of type hostPath", spec.Volumes[i].Name)
		}
	}
	for _, c := range slices.Concat(spec.InitContainers, spec.Containers) {
		if c.SecurityContext != nil && ptr.Deref(c.SecurityContext.Privileged, false) {
			return fmt.Sprintf("privileged container %q", c.Name)
		}
	}
	return ""
}

// describeExcess returns the message for a pod that exceeds the grant, with the grant, the usage and the remedy.
func describeExcess(pod *corev1.Pod, placement string, v enforcement.Verdict, limits quantity.Amounts) string {
	name := v.Short.Resource
	need := quantity.Format(name, v.Short.Need) + describeOverhead(&pod.Spec, name)
	granted := limits[name]
	if granted == 0 {
		return fmt.Sprintf("placement %q is granted no %s, the pod requests %s: ask for it in the ResourceRequest, or request none",
			placement, name, need)
	}
	return fmt.Sprintf("placement %q is granted %s of %s, its other %d pods use %s (terminating ones count until they have ended) and this one requests %s: it is created once they leave enough, or ask for more in the ResourceRequest",
		placement, quantity.Format(name, granted), name, v.Used[corev1.ResourcePods], quantity.Format(name, v.Used[name]), need)
}

// describeOverhead says how much of a pod's request is the overhead of its RuntimeClass in this cluster, which the
// author of the pod has not written. It returns "" if there is none.
func describeOverhead(spec *corev1.PodSpec, name corev1.ResourceName) string {
	overhead := spec.Overhead[name]
	if overhead.IsZero() || spec.RuntimeClassName == nil {
		return ""
	}
	return fmt.Sprintf(" (with %s of overhead of RuntimeClass %q here)", overhead.String(), *spec.RuntimeClassName)
}

// confinePod adds required node affinity to a pod, so that it runs only on nodes that this cluster lends and that have
// the labels for which the consumer asked. It also replaces tolerations that the placement was not granted by those
// that it was granted. The pod that Liqo makes to replace an evicted one gets the same changes.
func (j *podJudge) confinePod(ctx context.Context, req admission.Request) admission.Response {
	pod, err := offloadedPod(req)
	if err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	if pod == nil {
		return admission.Allowed("")
	}
	nodes, err := j.nodesFor(ctx, pod)
	if err != nil {
		return admission.Errored(http.StatusServiceUnavailable, err)
	}
	return patchObject(req, func(pod *corev1.Pod) (bool, []string, error) { return nodes.Confine(&pod.Spec), nil, nil })
}

// nodesFor returns the nodes that a pod may run on.
func (j *podJudge) nodesFor(ctx context.Context, pod *corev1.Pod) (enforcement.LentNodes, error) {
	nodes, known := j.Nodes()
	if !known {
		return nodes, errors.New("the agent has not read all nodes yet, try again")
	}
	placement := capacity.PlacementOf(&pod.ObjectMeta)
	if placement == "" {
		return nodes, nil
	}
	inst, err := j.instructionOf(ctx, placement)
	if inst != nil { // if it is nil, admitPod refuses the pod
		nodes = nodes.For(&inst.Spec)
	}
	return nodes, err
}

// offloadedPod returns the pod in a request, or nil if no ShadowPod controls the pod.
func offloadedPod(req admission.Request) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := json.Unmarshal(req.Object.Raw, pod); err != nil {
		return nil, err
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "ShadowPod" || !strings.HasPrefix(owner.APIVersion, "offloading.liqo.io/") {
		return nil, nil
	}
	pod.Namespace = req.Namespace
	return pod, nil
}

// consumerOf returns the cluster for which a namespace is offloaded. If the cache does not contain the namespace yet,
// it asks the API server.
func (j *podJudge) consumerOf(ctx context.Context, namespace string) (string, error) {
	ns, key := &corev1.Namespace{}, client.ObjectKey{Name: namespace}
	err := j.cache.Get(ctx, key, ns)
	if apierrors.IsNotFound(err) {
		err = j.reader.Get(ctx, key, ns)
	}
	if err != nil {
		return "", fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	return guard.OffloadedFor(ns), nil
}
