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

// places is the number of decimal places of a price.
const places = 9

// node is a lent node with its prices.
type node struct {
	name        string
	allocatable quantity.Amounts
	// says maps resources to prices, as written in the source.
	says map[corev1.ResourceName]string
}

// tariff is the result for all nodes.
type tariff struct {
	// prices by resource; nil if unpriced is not empty.
	prices map[corev1.ResourceName]string
	// unpriced lists resources that lent nodes have, but no node has a price for.
	unpriced []corev1.ResourceName
	// silent and wrong list the nodes that are left out of the mean of a resource.
	silent, wrong []remark
}

// remark is a missing or invalid price of a node.
type remark struct {
	resource corev1.ResourceName
	node     string
	problem  error
}

// meanPrices computes the prices of the given resources. The computation is exact and rounds
// once, half up, to nine places. Resources that no node has are omitted.
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

// readPrice parses a node's price and records a remark if it is missing or invalid.
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
	return decimal.RequireFromString(text), true // CheckPrice accepted it
}

// shown is how many remarks a message names.
const shown = 3

// describeOmissions lists what is left out of the mean; where names the label or metric of each
// resource.
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
			continue // no lent node has a price; the message already reports that
		}
		text := fmt.Sprintf("node %q has no %s", nodes[0], where[name])
		if more := len(nodes) - 1; more > 0 {
			text += fmt.Sprintf(", nor have %d more", more)
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}
