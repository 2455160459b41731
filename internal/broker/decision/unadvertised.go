package decision

import (
	"fmt"
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Unadvertised is a value in the constraints of a request that no candidate advertises. Usually it is
// misspelt.
type Unadvertised struct {
	// Field is the path of the value in the request. Excludes is true if the value only excludes
	// candidates.
	Field    string
	Excludes bool
	// Text says what no candidate advertises.
	Text string
}

// Unadvertised returns the values in constraints that no candidate advertises.
func (m *Market) Unadvertised(k *brokerv1alpha1.Constraints, requester string) (out []Unadvertised) {
	if k == nil {
		return nil
	}
	add := func(field, format string, args ...any) {
		out = append(out, Unadvertised{Field: "constraints." + field, Text: "no cluster " + fmt.Sprintf(format, args...)})
	}
	for i, id := range k.IncludeClusters {
		if id != requester && !m.Has(id) {
			add(fmt.Sprintf("includeClusters[%d]", i), "%s has advertised", id)
		}
	}
	for i, id := range k.ExcludeClusters {
		if id != requester && !m.Has(id) {
			add(fmt.Sprintf("excludeClusters[%d]", i), "%s has advertised", id)
			out[len(out)-1].Excludes = true
		}
	}
	locate := func(kind factKind, what string, names []string) {
		for i, name := range names {
			if len(m.index[factKey{kind: kind}][name]) == 0 {
				add(fmt.Sprintf("%ss[%d]", what, i), "advertises %s %s", what, name)
			}
		}
	}
	locate(regionFact, "region", k.Regions)
	locate(zoneFact, "zone", k.Zones)
	if s := k.ClusterSelector; s != nil {
		for _, name := range slices.Sorted(maps.Keys(s.MatchLabels)) {
			if value := string(s.MatchLabels[name]); len(m.index[factKey{labelFact, name}][value]) == 0 {
				add("clusterSelector.matchLabels", "advertises label %s=%s", name, value)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(k.NodeSelector)) {
		if !m.hasNodes(map[string]brokerv1alpha1.LabelValue{name: k.NodeSelector[name]}) {
			add("nodeSelector", "advertises nodes with label %s=%s", name, k.NodeSelector[name])
		}
	}
	if p := k.MaxPrice; p != nil && !m.hasPricesIn(p.Currency) {
		add("maxPrice.currency", "has prices in %s or in a currency with a rate to it", p.Currency)
	}
	return out
}

func (m *Market) hasNodes(wanted map[string]brokerv1alpha1.LabelValue) bool {
	return slices.ContainsFunc(m.shapes, func(nodes []shape) bool {
		return slices.ContainsFunc(nodes, func(s shape) bool { return requirements.HasAll(s.labels, wanted) })
	})
}

// hasPricesIn reports whether the prices of a candidate can be compared with a price in the currency.
func (m *Market) hasPricesIn(code string) bool {
	return slices.ContainsFunc(m.currencies, func(c currency) bool {
		return c.count > 0 && m.rates.factorBetween(c.code, code) != 0
	})
}
