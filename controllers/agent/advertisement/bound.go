package advertisement

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	// maxUsage and maxUsageBytes limit the list of placements in one advertisement, and maxShapesBytes
	// that of the node shapes. The broker accepts at most 4096 placements and messages of at most
	// 1 MiB, and what it stores of a message has at most 640 KiB.
	maxUsage       = 4096
	maxUsageBytes  = 512 << 10
	maxShapesBytes = 128 << 10
)

// bound counts the parts that were left out of the last advertisement, because it would have been too
// large for the broker.
type bound struct {
	shapes, usage int
}

// shortenMessage shortens two lists of an advertisement: the node shapes to maxShapesBytes, and the
// placements to maxUsage and maxUsageBytes. beyond reports whether a placement uses more than its
// reserved amounts.
func (b *bound) shortenMessage(msg *v1.Advertisement, beyond func(*v1.Usage) bool) {
	shapes, usage := len(msg.NodeShapes), len(msg.Usage)
	// The shapes are sorted by free capacity, so this keeps the shapes with the most free capacity.
	msg.NodeShapes = msg.NodeShapes[:countWithin(msg.NodeShapes, maxShapesBytes)]
	msg.Usage = boundUsage(msg.Usage, beyond, maxUsage, maxUsageBytes)
	b.shapes, b.usage = shapes-len(msg.NodeShapes), usage-len(msg.Usage)
}

// countWithin returns how many of the first items take at most a number of bytes as JSON.
func countWithin[T any](items []T, most int) int {
	size := 0
	for i := range items {
		text, err := json.Marshal(&items[i])
		if err != nil {
			panic(err) // the parts are names and numbers, which always encode
		}
		if size += len(text) + 1; size > most {
			return i
		}
	}
	return len(items)
}

// boundUsage shortens a list of placements: the parameter most limits the number of its entries,
// and mostBytes its size as JSON. Recalled placements are kept first, then those that use more than
// their reserved amounts. For each placement left out, the broker counts the granted amounts as
// used.
func boundUsage(all []v1.Usage, beyond func(*v1.Usage) bool, most, mostBytes int) []v1.Usage {
	rank := func(u *v1.Usage) int {
		switch {
		case u.Recall != nil:
			return 0
		case beyond(u):
			return 1
		}
		return 2
	}
	byRank := slices.Clone(all)
	slices.SortStableFunc(byRank, func(a, b v1.Usage) int { return cmp.Compare(rank(&a), rank(&b)) })
	kept := countWithin(byRank[:min(len(byRank), most)], mostBytes)
	if kept == len(all) {
		return all
	}
	out := byRank[:kept]
	slices.SortFunc(out, func(a, b v1.Usage) int {
		return cmp.Or(cmp.Compare(a.Reservation, b.Reservation), cmp.Compare(a.Placement, b.Placement))
	})
	return out
}

// completeCondition returns the condition Complete. Its message lists the parts of this cluster's
// offer that the agent left out.
func completeCondition(b *bound) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonComplete,
		Message: "the broker considers everything that this cluster offers",
	}
	var short []string
	if b.shapes > 0 {
		short = append(short, fmt.Sprintf("the %d node shapes with least free capacity are not published, because together they are too large: publish fewer node labels, or use fewer kinds of nodes", b.shapes))
	}
	if b.usage > 0 {
		short = append(short, fmt.Sprintf("the usage of %d placements is not published, the broker counts their granted amounts instead", b.usage))
	}
	if len(short) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, agentv1alpha1.ReasonShortened, strings.Join(short, "; ")
	}
	return c
}
