package pricing

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const cpu, gpu = corev1.ResourceCPU, corev1.ResourceName("nvidia.com/gpu")

// cores are nodes n0, n1, … with the given numbers of cores and prices.
func cores(pairs ...any) (nodes []node) {
	for i := 0; i < len(pairs); i += 2 {
		n := node{name: fmt.Sprintf("n%d", i/2), allocatable: quantity.Amounts{cpu: int64(pairs[i].(int)) * 1000}, says: map[corev1.ResourceName]string{}}
		if text := pairs[i+1].(string); text != "" {
			n.says[cpu] = text
		}
		nodes = append(nodes, n)
	}
	return nodes
}

func TestMeanPrices(t *testing.T) {
	mixed := cores(4, "0.04")
	mixed[0].allocatable[gpu], mixed[0].says[gpu] = 2, "1.50"
	cases := map[string]struct {
		nodes  []node
		want   map[corev1.ResourceName]string
		status metav1.ConditionStatus
		reason string
		says   []string
	}{
		"one node":                           {nodes: cores(4, "0.050"), want: map[corev1.ResourceName]string{cpu: "0.05"}},
		"two of one size":                    {nodes: cores(4, "0.05", 4, "0.03"), want: map[corev1.ResourceName]string{cpu: "0.04"}},
		"the larger weighs more":             {nodes: cores(30, "0.04", 10, "0.08"), want: map[corev1.ResourceName]string{cpu: "0.05"}},
		"halves are rounded up":              {nodes: cores(1, "0.000000001", 1, "0.000000002"), want: map[corev1.ResourceName]string{cpu: "0.000000002"}},
		"thirds are rounded":                 {nodes: cores(1, "1", 2, "0"), want: map[corev1.ResourceName]string{cpu: "0.333333333"}},
		"for nothing is a price":             {nodes: cores(4, "0"), want: map[corev1.ResourceName]string{cpu: "0"}},
		"the dearest there may be":           {nodes: cores(1<<40, "999999999.999999999", 1<<40, "999999999.999999999"), want: map[corev1.ResourceName]string{cpu: "999999999.999999999"}},
		"what no node has is left out":       {nodes: cores(4, "1"), want: map[corev1.ResourceName]string{cpu: "1"}},
		"each resource by itself":            {nodes: append(mixed, cores(12, "0.08")...), want: map[corev1.ResourceName]string{cpu: "0.07", gpu: "1.5"}},
		"a node that has none has no weight": {nodes: cores(0, "9", 4, "1"), want: map[corev1.ResourceName]string{cpu: "1"}},
		"no node":                            {want: map[corev1.ResourceName]string{}},
		"a node that says nothing is left out": {
			nodes: cores(4, "1", 8, "", 8, ""), want: map[corev1.ResourceName]string{cpu: "1"},
			says: []string{`left out: node "n1" has no label price, nor have 1 more`},
		},
		"one that is wrong too, and is named": {
			nodes: cores(4, "1", 8, "cheap", 8, ""), want: map[corev1.ResourceName]string{cpu: "1"},
			status: metav1.ConditionFalse, reason: agentv1alpha1.ReasonPriceInvalid,
			says: []string{`node "n1": label price: "cheap" is not a price: give a decimal`, `node "n2" has no label price`},
		},
		"of many that are wrong some are named": {
			nodes: cores(1, "1", 1, "-1", 1, "1e3", 1, "NaN", 1, "1.0000000001", 1, ""), want: map[corev1.ResourceName]string{cpu: "1"},
			status: metav1.ConditionFalse, reason: agentv1alpha1.ReasonPriceInvalid,
			says: []string{`"-1"`, `"1e3"`, `"NaN"`, "and 1 more"},
		},
		"none says a price": {
			nodes: cores(4, "", 4, ""), status: metav1.ConditionFalse, reason: agentv1alpha1.ReasonPriceMissing,
			says: []string{"no lent node has a price of cpu (label price)", "spec.cost"},
		},
		"none says one that is right": {
			nodes: cores(4, "cheap"), status: metav1.ConditionFalse, reason: agentv1alpha1.ReasonPriceMissing,
			says: []string{"no lent node has a price of cpu", `node "n0": label price: "cheap"`},
		},
		"none is lent for nothing beside priced ones": {
			nodes:  []node{{name: "n0", allocatable: quantity.Amounts{cpu: 1000, gpu: 1}, says: map[corev1.ResourceName]string{cpu: "1"}}},
			status: metav1.ConditionFalse, reason: agentv1alpha1.ReasonPriceMissing, says: []string{"price of nvidia.com/gpu (label gpu-price)"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := meanPrices(tc.nodes, []corev1.ResourceName{gpu, cpu})
			if diff := cmp.Diff(tc.want, got.prices); diff != "" {
				t.Errorf("prices (-want +got):\n%s", diff)
			}
			c := got.conditionOf(map[corev1.ResourceName]string{cpu: "label price", gpu: "label gpu-price"})
			if tc.reason == "" {
				tc.status, tc.reason = metav1.ConditionTrue, agentv1alpha1.ReasonPriced
			}
			if c.Type != agentv1alpha1.ConditionPriced || c.Status != tc.status || c.Reason != tc.reason {
				t.Errorf("condition %+v, want %s %s", c, tc.status, tc.reason)
			}
			for _, want := range tc.says {
				if !strings.Contains(c.Message, want) {
					t.Errorf("%q says nothing of %q", c.Message, want)
				}
			}
			if len(tc.says) == 0 && strings.Contains(c.Message, "left out") {
				t.Errorf("%q, though all nodes say a price", c.Message)
			}
		})
	}
}

// The mean equals exact integer arithmetic, lies between the lowest and highest price, and does
// not depend on the order of nodes.
func TestMeanMatchesIntegerArithmetic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []node
		sum, weight := new(big.Int), new(big.Int)
		var least, greatest *big.Int
		for i := range rapid.IntRange(1, 8).Draw(t, "nodes") {
			billionths := rapid.Int64Range(0, 999_999_999_999_999_999).Draw(t, "price")
			amount := rapid.Int64Range(1, 1<<52).Draw(t, "amount")
			text := fmt.Sprintf("%d.%09d", billionths/1e9, billionths%1e9)
			nodes = append(nodes, node{name: fmt.Sprint(i), allocatable: quantity.Amounts{cpu: amount}, says: map[corev1.ResourceName]string{cpu: text}})
			price := big.NewInt(billionths)
			sum.Add(sum, new(big.Int).Mul(price, big.NewInt(amount)))
			weight.Add(weight, big.NewInt(amount))
			if least == nil || price.Cmp(least) < 0 {
				least = price
			}
			if greatest == nil || price.Cmp(greatest) > 0 {
				greatest = price
			}
		}
		got := meanPrices(nodes, []corev1.ResourceName{cpu}).prices[cpu]
		runtest.Check(t, configuration.CheckPrice(got))
		// Rounding to nearest, computed as (2·sum + weight) / (2·weight).
		twice := new(big.Int).Lsh(sum, 1)
		want := new(big.Int).Div(twice.Add(twice, weight), new(big.Int).Lsh(weight, 1))
		parsed, err := billionthsOf(got)
		if err != nil || parsed.Cmp(want) != 0 {
			t.Fatalf("the mean is %s, want %s billionths: %v", got, want, err)
		}
		if parsed.Cmp(least) < 0 || parsed.Cmp(greatest) > 0 {
			t.Fatalf("%s is not between %s and %s billionths", got, least, greatest)
		}
		shuffled := rapid.Permutation(nodes).Draw(t, "order")
		if again := meanPrices(shuffled, []corev1.ResourceName{cpu}).prices[cpu]; again != got {
			t.Fatalf("in another order it is %s, not %s", again, got)
		}
	})
}

func billionthsOf(price string) (*big.Int, error) {
	whole, fraction, _ := strings.Cut(price, ".")
	n, ok := new(big.Int).SetString(whole+fraction+strings.Repeat("0", places-len(fraction)), 10)
	if !ok {
		return nil, errors.New("no number")
	}
	return n, nil
}

// Remarks have a fixed order, so that a condition does not change without reason.
func TestRemarksDoNotDependOnNodeOrder(t *testing.T) {
	nodes := cores(1, "1", 1, "", 1, "x", 1, "y", 1, "", 1, "z", 1, "w")
	where := map[corev1.ResourceName]string{cpu: "label price"}
	one := meanPrices(nodes, []corev1.ResourceName{cpu})
	slices.Reverse(nodes)
	other := meanPrices(nodes, []corev1.ResourceName{cpu})
	if diff := cmp.Diff(one.describeOmissions(where), other.describeOmissions(where)); diff != "" {
		t.Error(diff)
	}
}
