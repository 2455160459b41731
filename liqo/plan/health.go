package plan

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// HealthView holds the facts, besides slice and node, from which healthAspect judges a placement.
type HealthView struct {
	// Delivered is true once the placement's node was Ready for the first time.
	Delivered bool
	// Unreachable says why Liqo does not reach the provider's API server; "" if it does.
	Unreachable string
	// Unaccepted counts the pods that were bound to the node more than acceptWithin ago and still
	// have no copy at the provider. If there are none, Unplaced counts the pods whose copy
	// has no node there. WaitingPod is one of them, as namespace/name. If there are none either,
	// Unaccepted is 1 for a pod that waits for an object which the provider refuses.
	Unaccepted, Unplaced int
	WaitingPod           string
	// Unserved is true when the provider has promised a node for WaitingPod, which has none, and no
	// other pod of the placement runs.
	Unserved bool
	// Service is a Service whose endpoints the provider refuses, as namespace/name; "" for none, and
	// if a pod waits.
	Service string
	// Event is the reason and message of the newest Warning event about WaitingPod, or about the
	// endpoints of Service; "" if there is none. Ref refers to the pod or Service in events.
	Event string
	Ref   *corev1.ObjectReference
}

// healthAspect says whether a delivered placement works and, if not, what is wrong and what to do
// about it. If there are several problems, it names the one that most likely causes the others.
// Before the placement is delivered, it returns an empty aspect, because other aspects describe
// that time.
func healthAspect(v *ConsumerView) placement.Aspect {
	h := &v.Health
	switch {
	case !h.Delivered && !v.Node.Ready:
		return placement.Aspect{}
	case h.Unreachable != "":
		return placement.Waiting(agentv1alpha1.ReasonProviderUnreachable,
			"Liqo does not reach the API server of %q: %s; pods there keep running, new ones do not start: check that cluster and the network to it", v.Provider, h.Unreachable)
	case v.Handshake.Problem != "":
		return placement.Waiting(agentv1alpha1.ReasonHandshakeRefused, "%s; running pods there are not affected", v.Handshake.Problem)
	case v.Slice.Misled != "":
		return placement.Waiting(agentv1alpha1.ReasonHandshakeRefused, "%s", v.Slice.Misled)
	case v.Slice.Denied:
		return placement.Waiting(agentv1alpha1.ReasonSliceDenied,
			"%q no longer grants the slice: %s; see the ProviderInstruction there", v.Provider, cmp.Or(v.Slice.Message, "no reason is given"))
	case !v.Node.Ready:
		return placement.Waiting(agentv1alpha1.ReasonNodeNotReady,
			"virtual node %q is not Ready: %s; see its virtual kubelet in the tenant namespace of %q", v.Name, cmp.Or(v.Node.Message, "no reason is given"), v.Provider)
	case h.Unaccepted > 0:
		return placement.Waiting(agentv1alpha1.ReasonPodsRejected,
			"%s of node %q not accepted by %q, such as %q: %s; correct or delete the pod",
			countOf(h.Unaccepted, "pod"), v.Name, v.Provider, h.WaitingPod, cmp.Or(h.Event, "it has no Warning event: see kubectl describe shadowpod in that cluster"))
	case h.Unserved:
		return placement.Waiting(agentv1alpha1.ReasonPodsRejected,
			"%s of node %q without a node at %q, such as %q: %s; no pod runs there, although the provider has accepted podShapes of this size: the reservation moves like one whose node is not Ready",
			countOf(h.Unplaced, "pod"), v.Name, v.Provider, h.WaitingPod, cmp.Or(h.Event, "it has no Warning event"))
	case h.Unplaced > 0:
		return placement.Waiting(agentv1alpha1.ReasonPodsRejected,
			"%s of node %q without a node at %q, such as %q: %s; make the pod smaller or loosen its constraints, or request podShapes of its size, for which a provider checks that they fit on its nodes",
			countOf(h.Unplaced, "pod"), v.Name, v.Provider, h.WaitingPod, cmp.Or(h.Event, "it is larger than what is free on any node there, or its constraints match none"))
	case h.Service != "":
		return placement.Waiting(agentv1alpha1.ReasonServiceRejected,
			"%q does not accept the endpoints of Service %q, so pods there may reach another Service of that name, or none: %s", v.Provider, h.Service, h.Event)
	}
	return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonHealthy, Message: fmt.Sprintf("%q serves node %q", v.Provider, v.Name)}
}
