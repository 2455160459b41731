package broker

import (
	"fmt"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// sameRecall is the largest difference between the deadlines in two reports of the same recall.
	// A report contains the remaining time, and takes a while to arrive.
	sameRecall = 5 * time.Second
	// longestRecall is the longest remaining time that the broker accepts; longer ones are reduced
	// to it.
	longestRecall = 365 * 24 * time.Hour
	// maxRecallMessage is the length in bytes to which a provider's message is cut.
	maxRecallMessage = 256
)

// noteRecalls records which placements a provider recalls, and which recalls it withdraws. It
// ignores a recall while another placement of the same reservation is recalled. That does no harm,
// because a provider repeats its recalls with every advertisement.
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
	if said == nil && (known == nil || known.IsDrain()) || known != nil && known.Placement != p.Number {
		return nil
	}
	e := &ledger.Recall{PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}}
	if said != nil {
		left := longestRecall
		if said.RemainingSeconds < left.Seconds() {
			left = max(time.Duration(said.RemainingSeconds*float64(time.Second)), 0)
		}
		e.Ends, e.Message = rs.s.now().Add(left), message.Clip(said.Message, maxRecallMessage)
		if known != nil && known.IsDrain() && !e.Ends.Before(known.Ends) {
			return nil // the drain of the broker's administrator ends earlier
		}
		// A recall that is over is reported with no time left, however long ago it ended.
		if known != nil && known.Message == e.Message && term.Later(known.Ends, rs.s.now()).Sub(e.Ends).Abs() <= sameRecall {
			return nil
		}
	}
	rs.s.log.Info("provider changed the recall of a placement", "reservation", r.Name, "provider", p.Provider, "until", e.Ends)
	return rs.s.record(ledger.Event{Change: e})
}

// recallNotice returns the notice about the recall of a placement, for both of its sides. It
// returns nil if the placement is not recalled, or if a reservation with a higher priority needs
// the room before the recalled placement must end.
func (rs *reservations) recallNotice(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	c := r.CalledBack()
	if c == nil || p == nil || c.Placement != p.Number || r.Notice != nil && r.Notice.Ends.Before(c.Ends) {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonRecalled, RemainingSeconds: max(c.Ends.Sub(rs.s.now()), 0).Seconds(), Message: rs.recallMessage(r),
	}
}

// recallMessage says until when a recalled placement stays, and what happens then.
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
	who := p.Provider + " calls its capacity back"
	if c.IsDrain() {
		who = "the broker's administrator drains " + p.Provider
	}
	return fmt.Sprintf("%s%s: the placement there ends at %s; %s", who, why, c.Ends.UTC().Format(time.RFC3339), then)
}
