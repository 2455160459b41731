package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/namespaces"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// +kubebuilder:rbac:groups="",resources=namespaces;nodes,verbs=get
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list;watch
// +kubebuilder:rbac:groups=liqo.io,resources=resourcerequests,verbs=list;watch

// Paths of the webhooks for new pods.
const (
	// PodPath is the path of the webhook for all new pods in namespaces that Liqo offloads.
	PodPath = "/mutate--v1-pod"
	// OtherPodPath is the path of the webhook for new pods in other namespaces. It is called only for
	// pods that select a request's virtual node or tolerate the taint of virtual nodes.
	OtherPodPath = "/mutate--v1-pod-other"
)

// SetupPods registers the webhooks for new pods. They read requests and virtual nodes from the
// cache, so that pods do not wait for the API server.
func SetupPods(mgr ctrl.Manager) {
	c := compliance{cache: mgr.GetClient(), reader: mgr.GetAPIReader()}
	server := mgr.GetWebhookServer()
	server.Register(OtherPodPath, &admission.Webhook{Handler: &c})
	offloaded := c
	offloaded.offloaded = true
	server.Register(PodPath, &admission.Webhook{Handler: &offloaded})
}

type compliance struct {
	cache client.Reader
	// reader reads Namespaces, which the cache does not contain.
	reader client.Reader
	// offloaded is true in the webhook for namespaces that Liqo offloads. Pods in such a namespace
	// may run on the virtual nodes reserved for the namespace without selecting these nodes.
	offloaded bool
}

// Handle implements admission.Handler. It keeps the pod off nodes that are reserved for other
// namespaces, which needs no lookup. It also makes the pod comply with the requests that offload
// its namespace. If it cannot list those requests, it admits the pod without these changes.
func (c *compliance) Handle(ctx context.Context, req admission.Request) admission.Response {
	return patchObject(req, func(pod *corev1.Pod) (bool, []string, error) {
		if why := c.pinnedElsewhere(ctx, pod, req.Namespace); why != "" {
			return false, nil, errors.New(why)
		}
		verdict, changed := c.preparePod(ctx, pod, req.Namespace)
		return changed, verdict.Warnings, verdict.Errors.ToAggregate()
	})
}

// preparePod lets a pod run on the virtual nodes of its namespace, and on no others.
func (c *compliance) preparePod(ctx context.Context, pod *corev1.Pod, namespace string) (webhooks.Verdict, bool) {
	pinned, changed := selectsRequest(&pod.Spec), false
	if pinned {
		changed = qualifyRequests(&pod.Spec, namespace)
		changed = tolerateVirtualNodes(&pod.Spec) || changed
	}
	verdict, complied := c.complyWithRequests(ctx, pod, namespace, pinned)
	confined := confineToNamespace(pod, namespace, c.offloaded || selectsVirtualNodes(&pod.Spec))
	return verdict, changed || complied || confined
}

// complyWithRequests changes a pod as the podCompliance of the requests that offload its namespace
// demands. pinned is true if the pod selects a request's virtual node.
func (c *compliance) complyWithRequests(ctx context.Context, pod *corev1.Pod, namespace string, pinned bool) (v webhooks.Verdict, changed bool) {
	var requests agentv1alpha1.ResourceRequestList
	err := c.cache.List(ctx, &requests)
	var nodes []reservedNode
	if err == nil {
		nodes, err = c.reservedNodes(ctx, requests.Items, namespace)
	}
	if err != nil {
		log.FromContext(ctx).Error(err, "pod left unchanged", "namespace", namespace)
		v.Warn("the agent could not list the ResourceRequests of this namespace, so the pod's requests and limits stay unchanged")
		return v, false
	}
	v, changed = makeCompliant(pod, nodes)
	if pinned || pod.Spec.NodeSelector[agentv1alpha1.ReservationLabel] != "" {
		v.Warnings = append(v.Warnings, unsupportedFields(&pod.Spec)...)
	}
	if len(v.Errors) == 0 && pinned && !leavesPinnedPods(requests.Items, &pod.Spec) {
		warnings, equalised := equalisePod(&pod.Spec)
		v.Warnings = append(v.Warnings, warnings...)
		changed = changed || equalised
	}
	return v, changed
}

// reservedNodes lists the open nodes of the requests with podCompliance Enforce that offload the namespace.
func (c *compliance) reservedNodes(ctx context.Context, requests []agentv1alpha1.ResourceRequest, namespace string) (out []reservedNode, err error) {
	for i := range requests {
		rr := &requests[i]
		if !wantsCompliance(rr) {
			continue
		}
		offloads, err := namespaces.Offloads(ctx, c.reader, rr, namespace)
		if err != nil {
			return nil, err
		}
		if !offloads {
			continue
		}
		node := &corev1.Node{}
		err = c.cache.Get(ctx, client.ObjectKey{Name: rr.Status.NodeName}, node)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("reading virtual node %q: %w", rr.Status.NodeName, err)
		}
		if takesNoPods(node) {
			continue
		}
		out = append(out, reservedNode{Request: rr.Namespace + "/" + rr.Name, Reservation: rr.Status.ReservationName, Node: node})
	}
	return out, nil
}

// takesNoPods reports whether a node is cordoned or its placement ends. A new pod that is pinned to
// such a node would stay pending, for example the replacement of a pod that was evicted from it.
func takesNoPods(node *corev1.Node) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == agentv1alpha1.EndingTaint })
}

// wantsCompliance reports whether a request has podCompliance Enforce and a virtual node for new
// pods. A request that is being released or deleted has none.
func wantsCompliance(rr *agentv1alpha1.ResourceRequest) bool {
	return rr.Spec.Offloading != nil && rr.Spec.Offloading.PodCompliance == agentv1alpha1.PodComplianceEnforce &&
		!rr.Spec.Release && rr.DeletionTimestamp == nil && rr.Status.NodeName != ""
}
