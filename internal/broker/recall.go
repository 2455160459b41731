package broker

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// sameRecall is how far apart two reports may put the same deadline. They contain the
	// remaining time, and take a while to arrive.
	sameRecall = 5 * time.Second
	// longestRecall bounds a remaining time reported by a provider.
	longestRecall = 365 * 24 * time.Hour
	// maxRecallMessage bounds the length of a provider's message.
	maxRecallMessage = 256
)

// noteRecalls records the placements that a provider recalls, and the recalls that it
// withdraws. A provider repeats its recalls with every advertisement. So noteRecalls can ignore
// a recall that has no effect now, because the placement ends soon anyway or a second one
// stands.
func (rs *reservations) noteRecalls(clusterID string, usage []v1.Usage) error {
	for i := range usage {
		u := &usage[i]
		r := rs.s.book.Reservation(u.Reservation)
		if r == nil {
			continue
		}
		if p := r.Placement(u.Placement); r.Stands(p) && p.Provider == clusterID {
			if err := rs.noteRecall(r, p, u.Recall); err != nil {
				return err
			}
		}
	}
	return nil
}

func (rs *reservations) noteRecall(r *ledger.Reservation, p *ledger.Placement, said *v1.Recall) error {
	known := r.CalledBack()
	if said == nil && known == nil || known != nil && known.Placement != p.Number {
		return nil
	}
	e := &ledger.Recall{PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}}
	if said != nil {
		left := longestRecall
		if said.RemainingSeconds < left.Seconds() {
			left = max(time.Duration(said.RemainingSeconds*float64(time.Second)), 0)
		}
		e.Ends, e.Message = rs.s.now().Add(left), message.Clip(said.Message, maxRecallMessage)
		// A past recall is reported with no time left, however long ago it ended.
		if known != nil && known.Message == e.Message && laterOf(known.Ends, rs.s.now()).Sub(e.Ends).Abs() <= sameRecall {
			return nil
		}
	}
	rs.s.log.Info("provider recalled a placement, or took the recall back", "reservation", r.Name, "provider", p.Provider, "until", e.Ends)
	return rs.s.record(ledger.Event{Change: e})
}

// recallNotice returns the notice for both sides of a recalled placement; nil for any other
// placement, and for one that has to make room earlier.
func (rs *reservations) recallNotice(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	c := r.CalledBack()
	if c == nil || p == nil || c.Placement != p.Number || r.Notice != nil && r.Notice.Ends.Before(c.Ends) {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonRecalled, RemainingSeconds: max(c.Ends.Sub(rs.s.now()), 0).Seconds(), Message: rs.recallMessage(r),
	}
}

// recallMessage describes until when a recalled placement stays, and what happens then.
func (rs *reservations) recallMessage(r *ledger.Reservation) string {
	c := r.CalledBack()
	p := r.Placement(c.Placement)
	why := ""
	if c.Message != "" {
		why = fmt.Sprintf(" (%s)", c.Message)
	}
	then := "then it ends, unless another cluster has room"
	if next := r.Beside(p); next != nil {
		then = fmt.Sprintf("%s takes over once the virtual node %s is Ready", next.Provider, brokerv1alpha1.PlacementName(r.Name, next.Number))
	} else if r.Queue {
		then = "then it goes elsewhere or waits for capacity"
	}
	return fmt.Sprintf("%s calls it back%s: it is taken down there at %s; %s", p.Provider, why, c.Ends.UTC().Format(time.RFC3339), then)
}
