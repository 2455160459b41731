package pricing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// places is how many decimal places a price has.
const places = 9

// node is a lent node with its prices.
type node struct {
	name        string
	allocatable quantity.Amounts
	// says holds, for each resource, the text of the node's label or metric. The text is not
	// checked yet and may not be a price.
	says map[corev1.ResourceName]string
}

// tariff holds the mean prices of a cluster's nodes, and which prices are missing or invalid.
type tariff struct {
	// prices is the mean price of each resource; nil if unpriced is not empty.
	prices map[corev1.ResourceName]string
	// unpriced lists the resources that lent nodes have but for which no node has a price.
	unpriced []corev1.ResourceName
	// silent lists the nodes without a price for a resource that they have. wrong lists the nodes
	// with an invalid price. The mean leaves out both.
	silent, wrong []remark
}

// remark says that a node has no price for a resource or, if problem is set, an invalid one.
type remark struct {
	resource corev1.ResourceName
	node     string
	problem  error
}

// meanPrices computes the mean prices of the given resources. It computes exactly and rounds only
// the result, half up, to nine decimal places. Resources that no node has are omitted.
func meanPrices(nodes []node, resources []corev1.ResourceName) tariff {
	t := tariff{prices: map[corev1.ResourceName]string{}}
	for _, name := range slices.Sorted(slices.Values(resources)) {
		sum, weight, there := decimal.Zero, decimal.Zero, false
		for i := range nodes {
			amount := nodes[i].allocatable[name]
			if amount <= 0 {
				continue
			}
			there = true
			price, ok := t.readPrice(&nodes[i], name)
			if ok {
				sum = sum.Add(price.Mul(decimal.NewFromInt(amount)))
				weight = weight.Add(decimal.NewFromInt(amount))
			}
		}
		if !weight.IsZero() {
			t.prices[name] = sum.DivRound(weight, places).String()
		} else if there {
			t.unpriced = append(t.unpriced, name)
		}
	}
	if len(t.unpriced) > 0 {
		t.prices = nil
	}
	for _, remarks := range [][]remark{t.silent, t.wrong} {
		slices.SortFunc(remarks, func(a, b remark) int {
			return cmp.Or(cmp.Compare(a.resource, b.resource), cmp.Compare(a.node, b.node))
		})
	}
	return t
}

// readPrice returns a node's price of a resource. If the price is missing or invalid, it adds a
// remark to t.
func (t *tariff) readPrice(n *node, name corev1.ResourceName) (price decimal.Decimal, ok bool) {
	text, ok := n.says[name]
	if !ok {
		t.silent = append(t.silent, remark{resource: name, node: n.name})
		return price, false
	}
	if err := configuration.CheckPrice(text); err != nil {
		t.wrong = append(t.wrong, remark{resource: name, node: n.name, problem: err})
		return price, false
	}
	return decimal.RequireFromString(text), true // cannot fail, because CheckPrice has accepted the text
}

// shown is how many invalid prices a message lists.
const shown = 3

// describeOmissions says which nodes are left out of the mean, and why. It names up to shown nodes
// with invalid prices, and one node for each resource without a price. where holds, for each
// resource, the name of its label or metric.
func (t *tariff) describeOmissions(where map[corev1.ResourceName]string) string {
	var words []string
	for _, r := range t.wrong[:min(len(t.wrong), shown)] {
		words = append(words, fmt.Sprintf("node %q: %s: %v", r.node, where[r.resource], r.problem))
	}
	if more := len(t.wrong) - shown; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	silent := map[corev1.ResourceName][]string{}
	for _, r := range t.silent {
		silent[r.resource] = append(silent[r.resource], r.node)
	}
	for _, name := range slices.Sorted(maps.Keys(silent)) {
		nodes := silent[name]
		if slices.Contains(t.unpriced, name) {
			continue // the message of the condition already says that no node has a price
		}
		text := fmt.Sprintf("node %q has no %s", nodes[0], where[name])
		if more := len(nodes) - 1; more > 0 {
			text += fmt.Sprintf(", nor have %d more", more)
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}
