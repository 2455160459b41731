package advertisement

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// maxUsage is how many placements the API takes in one advertisement. Their bytes are
	// half of what it takes altogether.
	maxUsage      = 4096
	maxUsageBytes = 512 << 10
	// fullerAfter is when to try a longer advertisement again after one was too large.
	fullerAfter = 10 * time.Minute
)

// bound shortens advertisements of a cluster that is too large for one.
type bound struct {
	// shapes is how many node shapes the broker takes; 0 for all.
	shapes int
	// refusal is what the broker said of more, and fuller when to try that again.
	refusal string
	fuller  time.Time
	// usage is how many placements the last advertisement left out.
	usage int
}

// shorten leaves out of an advertisement what does not fit.
func (b *bound) shorten(msg *v1.Advertisement, beyond func(*v1.Usage) bool, now time.Time) {
	if b.shapes > 0 && !now.Before(b.fuller) {
		b.shapes, b.fuller = 2*b.shapes, now.Add(fullerAfter)
	}
	if b.shapes >= len(msg.NodeShapes) {
		b.shapes, b.refusal = 0, ""
	}
	if b.shapes > 0 {
		// The first ones have most free.
		msg.NodeShapes = msg.NodeShapes[:b.shapes]
	}
	all := len(msg.Usage)
	msg.Usage = boundUsage(msg.Usage, beyond, maxUsage, maxUsageBytes)
	b.usage = all - len(msg.Usage)
}

// tooLarge halves the node shapes after a refusal, and reports whether that may help.
func (b *bound) tooLarge(err error, msg *v1.Advertisement, now time.Time) bool {
	if fault.ReasonOf(err) != fault.TooLarge || len(msg.NodeShapes) < 2 {
		return false
	}
	b.shapes, b.refusal, b.fuller = len(msg.NodeShapes)/2, err.Error(), now.Add(fullerAfter)
	msg.NodeShapes = msg.NodeShapes[:b.shapes]
	return true
}

// boundUsage keeps placements that are called back, then those that use more than is kept for
// them. The broker counts what it granted for those that are left out.
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
	kept, size := 0, 0
	for ; kept < min(len(byRank), most); kept++ {
		text, err := json.Marshal(&byRank[kept])
		if err != nil {
			panic(err) // names and numbers
		}
		if size += len(text) + 1; size > mostBytes {
			break
		}
	}
	if kept == len(all) {
		return all
	}
	out := byRank[:kept]
	slices.SortFunc(out, func(a, b v1.Usage) int {
		return cmp.Or(cmp.Compare(a.Reservation, b.Reservation), cmp.Compare(a.Placement, b.Placement))
	})
	return out
}

// send publishes an advertisement, with fewer node shapes where it is too large.
func (r *Reconciler) send(ctx context.Context, msg *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	for {
		r.sequence++
		msg.Epoch, msg.Sequence = r.epoch, r.sequence
		receipt, err := r.publisher.PublishAdvertisement(ctx, msg)
		if err == nil || !r.bound.tooLarge(err, msg, r.options.Clock.Now()) {
			return receipt, err
		}
	}
}

// complete says what decisions of the broker do not know of this cluster.
func complete(b *bound, receipt *v1.AdvertisementReceipt) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonComplete,
		Message: "decisions of the broker know all that this cluster offers",
	}
	var short []string
	if b.shapes > 0 {
		short = append(short, fmt.Sprintf("the %d node shapes with most free are shown, since the broker refused more (%s): show fewer labels of nodes, or merge kinds of nodes", b.shapes, b.refusal))
	}
	if b.usage > 0 {
		short = append(short, fmt.Sprintf("the usage of %d placements is left out, the broker counts what was granted for them", b.usage))
	}
	if len(short) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonShortened
	}
	if receipt != nil && len(receipt.LeftOut) > 0 {
		c.Status, c.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonLeftOut
		short = append(short, fmt.Sprintf("the broker leaves %s out of its decisions: this cluster names more resources than BrokerConfig.spec.memberBudget allows, or all clusters name too many; "+
			"withhold resources that nobody asks for, or have the budget raised", strings.Join(receipt.LeftOut, ", ")))
	}
	if len(short) > 0 {
		c.Message = strings.Join(short, "; ")
	}
	return c
}
