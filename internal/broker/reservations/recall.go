package reservations

import (
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// SameRecall is the largest difference between the deadlines in two reports of the same recall.
	// A report contains the remaining time, and takes a while to arrive.
	SameRecall = 5 * time.Second
	// longestRecall is the longest remaining time that the broker accepts; longer ones are reduced
	// to it.
	longestRecall = 365 * 24 * time.Hour
	// maxRecallMessage is the length in bytes to which a provider's message is cut.
	maxRecallMessage = 256
)

// NoteRecalls records which placements a provider recalls, and which recalls it withdraws. It
// ignores a recall while another placement of the same reservation is recalled. That does no harm,
// because a provider repeats its recalls with every advertisement.
func (rs *Reservations) NoteRecalls(clusterID string, usage []v1.Usage) error {
	for i := range usage {
		u := &usage[i]
		r := rs.s.Book().Reservation(u.Reservation)
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

func (rs *Reservations) noteRecall(r *ledger.Reservation, p *ledger.Placement, said *v1.Recall) error {
	known := r.CalledBack()
	if said == nil && (known == nil || known.IsDrain()) || known != nil && known.Placement != p.Number {
		return nil
	}
	e := &ledger.Recall{PlacementRef: r.Ref(p)}
	if said != nil {
		left := longestRecall
		if said.RemainingSeconds < left.Seconds() {
			left = max(time.Duration(said.RemainingSeconds*float64(time.Second)), 0)
		}
		e.Ends, e.Message = rs.s.Now().Add(left), message.Clip(said.Message, maxRecallMessage)
		if known != nil && known.IsDrain() && !e.Ends.Before(known.Ends) {
			return nil // the drain of the broker's administrator ends earlier
		}
		// A recall that is over is reported with no time left, however long ago it ended.
		if known != nil && known.Message == e.Message && term.Later(known.Ends, rs.s.Now()).Sub(e.Ends).Abs() <= SameRecall {
			return nil
		}
	}
	rs.s.Log().Info("provider changed the recall of a placement", "reservation", r.Name, "provider", p.Provider, "until", e.Ends)
	return rs.s.Record(ledger.Event{Change: e})
}
