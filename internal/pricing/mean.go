package pricing

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// places after the point that a price has.
const places = 9

// node is one that is lent, and what it says.
type node struct {
	name        string
	allocatable quantity.Amounts
	// says what each resource costs, as the source has it.
	says map[corev1.ResourceName]string
}

// tariff is what the nodes come to.
type tariff struct {
	// prices by resource; nil where unpriced names one.
	prices map[corev1.ResourceName]string
	// unpriced are resources that lent nodes have and none says the price of.
	unpriced []corev1.ResourceName
	// silent nodes and wrong ones are left out of the mean of a resource.
	silent, wrong []remark
}

// remark on what a node says of a resource.
type remark struct {
	resource corev1.ResourceName
	node     string
	problem  error
}

// mean reckons the prices of the given resources. It is exact, and rounded once to the
// nearest of nine places, halves up. What no node has is left out.
func mean(nodes []node, resources []corev1.ResourceName) tariff {
	t := tariff{prices: map[corev1.ResourceName]string{}}
	for _, name := range slices.Sorted(slices.Values(resources)) {
		sum, weight, there := decimal.Zero, decimal.Zero, false
		for i := range nodes {
			amount := nodes[i].allocatable[name]
			if amount <= 0 {
				continue
			}
			there = true
			price, ok := t.read(&nodes[i], name)
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

// read what a node says of a resource, with a remark where it is no price.
func (t *tariff) read(n *node, name corev1.ResourceName) (price decimal.Decimal, ok bool) {
	text, ok := n.says[name]
	if !ok {
		t.silent = append(t.silent, remark{resource: name, node: n.name})
		return price, false
	}
	if err := configuration.CheckPrice(text); err != nil {
		t.wrong = append(t.wrong, remark{resource: name, node: n.name, problem: err})
		return price, false
	}
	return decimal.RequireFromString(text), true // CheckPrice let it pass
}

// shown is how many remarks a person is told.
const shown = 3

// told says what is left out of the mean, by where nodes say it.
func (t *tariff) told(where map[corev1.ResourceName]string) string {
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
			continue // no lent node has it, which is said already
		}
		text := fmt.Sprintf("node %q has no %s", nodes[0], where[name])
		if more := len(nodes) - 1; more > 0 {
			text += fmt.Sprintf(", nor have %d more", more)
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}
