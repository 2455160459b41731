package admission

import (
	"fmt"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// decideNewNodes returns the fewest new nodes of one group with which a placement fits that does not fit
// now. If there are none, it returns the refusal. Nodes that are being created for other placements are
// not created twice. If some of them exist already, they count twice here; the placement is then decided
// about again, see Admitter.
func (m *room) decideNewNodes(inst *agentv1alpha1.ProviderInstruction, wanted quantity.Amounts, refusal Decision) Decision {
	if len(m.snapshot.Grouped) != len(m.rules.Groups) {
		return refusal // the nodes have not been listed with the present groups
	}
	var coming []quantity.NodeShape
	rest := make([]int64, len(m.rules.Groups))
	for i := range m.rules.Groups {
		g := &m.rules.Groups[i]
		rest[i] = g.Nodes - m.snapshot.Grouped[i]
		for _, k := range m.others {
			if n := k.newNodes; n != nil && n.Group == g.Name && n.Count > 0 {
				coming, rest[i] = append(coming, g.NewNodes(int64(n.Count))), rest[i]-int64(n.Count)
			}
		}
	}
	for i := range m.rules.Groups {
		g := &m.rules.Groups[i]
		for n := range max(rest[i], 0) + 1 {
			if m.created = coming; n > 0 {
				m.created = append(coming[:len(coming):len(coming)], g.NewNodes(n))
			}
			if m.decide(inst, wanted).Admitted {
				return Decision{
					NewNodes: &agentv1alpha1.NewNodes{Group: g.Name, Count: int32(n)}, Reason: agentv1alpha1.ReasonProvisioning,
					Message: fmt.Sprintf("%s; %d new nodes of group %q give it room", refusal.Message, n, g.Name),
				}
			}
		}
	}
	return refusal
}
