package admission

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// decideNewNodes returns the new nodes that a placement needs to fit: few, and preferably of the groups that
// come first. If new nodes do not help either, it returns the refusal.
//
// Nodes that are planned for other placements are not created a second time. Those that exist already count
// twice here, so a placement is decided about again once all its new nodes exist.
func (m *room) decideNewNodes(inst *agentv1alpha1.ProviderInstruction, wanted quantity.Amounts, refusal Decision) (Decision, error) {
	groups := m.rules.Groups
	if len(groups) == 0 {
		return refusal, nil
	}
	counts, counted := m.rules.CreatableNodes(m.snapshot.Groups, m.snapshot.NodesPerGroup)
	if !counted {
		return Decision{}, errors.New("the nodes of the configured groups are not counted yet")
	}
	planned, awaited := m.plannedNodes()
	for i := range groups {
		counts[i] = max(counts[i]-awaited[groups[i].Name], 0)
	}
	fits := func() bool {
		m.created = slices.Clone(planned)
		for i, n := range counts {
			if n > 0 {
				m.created = append(m.created, groups[i].NewNodes(n))
			}
		}
		d := m.decidePlacement(inst, wanted)
		return d.Admitted
	}
	if !fits() {
		return refusal, nil
	}
	for i := len(counts) - 1; i >= 0; i-- {
		counts[i] = int64(sort.Search(int(counts[i]), func(n int) bool {
			most := counts[i]
			counts[i] = int64(n)
			defer func() { counts[i] = most }()
			return fits()
		}))
	}
	var newNodes []agentv1alpha1.NewNodes
	var words []string
	for i, n := range counts {
		if n > 0 {
			newNodes = append(newNodes, agentv1alpha1.NewNodes{Group: groups[i].Name, Count: int32(n)})
			words = append(words, fmt.Sprintf("%d of group %q", n, groups[i].Name))
		}
	}
	if newNodes == nil {
		newNodes = []agentv1alpha1.NewNodes{{Group: slices.Sorted(maps.Keys(awaited))[0]}}
		words = []string{"those that are created for other placements"}
	}
	return Decision{NewNodes: newNodes, Reason: agentv1alpha1.ReasonProvisioning, Message: "it needs new nodes: " + strings.Join(words, " and ")}, nil
}

// plannedNodes returns the nodes that are created for other placements, and their number by group.
func (m *room) plannedNodes() (nodes []quantity.NodeShape, perGroup map[string]int64) {
	perGroup = map[string]int64{}
	for _, k := range m.others {
		for _, n := range k.newNodes {
			for i := range m.rules.Groups {
				if g := &m.rules.Groups[i]; g.Name == n.Group && n.Count > 0 {
					nodes = append(nodes, g.NewNodes(int64(n.Count)))
					perGroup[n.Group] += int64(n.Count)
				}
			}
		}
	}
	return nodes, perGroup
}
