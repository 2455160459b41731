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
	// maxUsage and maxUsageBytes limit the list of placements in one advertisement. The broker accepts
	// at most 4096 placements, and messages of at most 1 MiB, of which the list may fill half.
	maxUsage      = 4096
	maxUsageBytes = 512 << 10
	// fullerAfter is the pause before the agent again tries to send more node shapes than the broker
	// last accepted.
	fullerAfter = 10 * time.Minute
)

// bound remembers how far advertisements must be shortened because they were too large for the
// broker.
type bound struct {
	// shapes is the maximum number of node shapes to send; 0 before the broker has refused a longer list.
	shapes int
	// refusal is the broker's error for the last advertisement that was too large. fuller is when
	// to try again with twice as many node shapes.
	refusal string
	fuller  time.Time
	// usage is the number of placements that were left out of the last advertisement.
	usage int
}

// shortenMessage shortens two lists of an advertisement: the node shapes to b.shapes, and the
// placements to maxUsage and maxUsageBytes. beyond reports whether a placement uses more than its
// reserved amounts.
func (b *bound) shortenMessage(msg *v1.Advertisement, beyond func(*v1.Usage) bool, now time.Time) {
	if b.shapes > 0 && !now.Before(b.fuller) {
		b.shapes, b.fuller = 2*b.shapes, now.Add(fullerAfter)
	}
	if b.shapes >= len(msg.NodeShapes) {
		b.shapes, b.refusal = 0, ""
	}
	if b.shapes > 0 {
		// The shapes are sorted by free capacity, so this keeps the shapes with the most free capacity.
		msg.NodeShapes = msg.NodeShapes[:b.shapes]
	}
	all := len(msg.Usage)
	msg.Usage = boundUsage(msg.Usage, beyond, maxUsage, maxUsageBytes)
	b.usage = all - len(msg.Usage)
}

// tooLarge halves the node shapes in msg if err is a refusal because of the size. It reports
// whether sending msg again can succeed.
func (b *bound) tooLarge(err error, msg *v1.Advertisement, now time.Time) bool {
	if fault.ReasonOf(err) != fault.TooLarge || len(msg.NodeShapes) < 2 {
		return false
	}
	b.shapes, b.refusal, b.fuller = len(msg.NodeShapes)/2, err.Error(), now.Add(fullerAfter)
	msg.NodeShapes = msg.NodeShapes[:b.shapes]
	return true
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
	kept, size := 0, 0
	for ; kept < min(len(byRank), most); kept++ {
		text, err := json.Marshal(&byRank[kept])
		if err != nil {
			panic(err) // the parts are names and numbers, which always encode
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

// sendAdvertisement publishes an advertisement, with fewer node shapes if the broker finds it too large.
func (r *Reconciler) sendAdvertisement(ctx context.Context, msg *v1.Advertisement) (*v1.AdvertisementReceipt, error) {
	for {
		r.sequence++
		msg.Epoch, msg.Sequence = r.epoch, r.sequence
		receipt, err := r.publisher.PublishAdvertisement(ctx, msg)
		if err == nil || !r.bound.tooLarge(err, msg, r.options.Clock.Now()) {
			return receipt, err
		}
	}
}

// completeCondition lists the parts of this cluster's offer that the agent left out.
func completeCondition(b *bound) *metav1.Condition {
	c := &metav1.Condition{
		Type: agentv1alpha1.ConditionComplete, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonComplete,
		Message: "the broker considers everything that this cluster offers",
	}
	var short []string
	if b.shapes > 0 {
		short = append(short, fmt.Sprintf("only the %d node shapes with most free capacity are published, because the broker refused more (%s): publish fewer node labels, or use fewer kinds of nodes", b.shapes, b.refusal))
	}
	if b.usage > 0 {
		short = append(short, fmt.Sprintf("the usage of %d placements is not published, the broker counts their granted amounts instead", b.usage))
	}
	if len(short) > 0 {
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, agentv1alpha1.ReasonShortened, strings.Join(short, "; ")
	}
	return c
}
