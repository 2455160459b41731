package plan

import (
	"cmp"
	"fmt"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
)

// HealthView is what shows, beside slice and node, whether a placement still works.
type HealthView struct {
	// Delivered reports whether its node was Ready once.
	Delivered bool
	// Unreachable is why Liqo does not reach the provider's API server, "" if it does.
	Unreachable string
	// Rejected is how many pods on the node the provider does not take.
	Rejected int
}

// healthAspect says what is wrong with a placement that was delivered, and what to do; of
// several things the one that explains the others. Before, its steps say what is awaited.
func healthAspect(v *ConsumerView) placement.Aspect {
	h := &v.Health
	switch {
	case !h.Delivered && !v.Node.Ready:
		return placement.Aspect{}
	case h.Unreachable != "":
		return placement.Waiting(agentv1alpha1.ReasonProviderUnreachable,
			"Liqo does not reach the API server of %q: %s; what runs there runs on, nothing new starts: see whether that cluster is up, and the way to it", v.Provider, h.Unreachable)
	case v.Handshake.Problem != "":
		return placement.Waiting(agentv1alpha1.ReasonHandshakeRefused, "%s; what runs there is not affected", v.Handshake.Problem)
	case v.Slice.Misled != "":
		return placement.Waiting(agentv1alpha1.ReasonHandshakeRefused, "%s", v.Slice.Misled)
	case v.Slice.Denied:
		return placement.Waiting(agentv1alpha1.ReasonSliceDenied,
			"%q does not grant the slice any more: %s; see the ProviderInstruction there", v.Provider, cmp.Or(v.Slice.Message, "it does not say why"))
	case !v.Node.Ready:
		return placement.Waiting(agentv1alpha1.ReasonNodeNotReady,
			"virtual node %q is not Ready: %s; see its virtual kubelet in the tenant namespace of %q", v.Name, cmp.Or(v.Node.Message, "it does not say why"), v.Provider)
	case h.Rejected > 0:
		return placement.Waiting(agentv1alpha1.ReasonPodsRejected,
			"%q does not take %d pods of node %q: their events say why; mostly the quota is used up, or a pod has no requests and limits", v.Provider, h.Rejected, v.Name)
	}
	return placement.Aspect{True: true, Reason: agentv1alpha1.ReasonHealthy, Message: fmt.Sprintf("%q serves node %q", v.Provider, v.Name)}
}
