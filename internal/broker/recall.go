package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// sameRecall is how far two words of a provider may put one deadline apart: they say
	// how much time is left, and are some time on their way.
	sameRecall = 5 * time.Second
	// longestRecall bounds a remaining time from the network.
	longestRecall = 365 * 24 * time.Hour
	// maxRecallMessage is how much of a provider's message is kept.
	maxRecallMessage = 256
)

// noteRecalls writes down which of its placements a provider calls back, and which no
// more. Its word is repeated with every advertisement, so nothing of it has to be kept
// that does not count now: a placement whose end is near for another reason, or one of two.
func (t *term) noteRecalls(clusterID string, usage []v1.Usage) error {
	for i := range usage {
		u := &usage[i]
		r := t.state.Reservation(u.Reservation)
		if r == nil {
			continue
		}
		if p := r.Placement(u.Placement); r.Stands(p) && p.Provider == clusterID {
			if err := t.noteRecall(r, p, u.Recall); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *term) noteRecall(r *ledger.Reservation, p *ledger.Placement, said *v1.Recall) error {
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
		e.Ends, e.Message = t.now().Add(left), message.Clip(said.Message, maxRecallMessage)
		// What is over has no time left, however long ago it was.
		if known != nil && known.Message == e.Message && later(known.Ends, t.now()).Sub(e.Ends).Abs() <= sameRecall {
			return nil
		}
	}
	t.b.opts.Log.Info("a provider calls a placement back, or does no more", "reservation", r.Name, "provider", p.Provider, "until", e.Ends)
	return t.record(ledger.Event{Recall: e})
}

// recallNotice is what both sides of a placement are told that is called back, nil for any
// other, and for one that has to make room before.
func (t *term) recallNotice(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	c := r.CalledBack()
	if c == nil || p == nil || c.Placement != p.Number || r.Notice != nil && r.Notice.Ends.Before(c.Ends) {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonRecalled, RemainingSeconds: max(c.Ends.Sub(t.now()), 0).Seconds(), Message: t.recallMessage(r),
	}
}

// recallMessage says until when a placement that is called back stays, and what comes
// then.
func (t *term) recallMessage(r *ledger.Reservation) string {
	c := r.CalledBack()
	p := r.Placement(c.Placement)
	why := ""
	if c.Message != "" {
		why = fmt.Sprintf(" (%s)", c.Message)
	}
	then := "then it ends, unless another cluster has room"
	if next := r.Beside(p); next != nil {
		then = fmt.Sprintf("%s takes over once the virtual node %s is Ready", next.Provider, ledger.PlacementName(r.Name, next.Number))
	} else if r.Queue {
		then = "then it goes elsewhere or waits for capacity"
	}
	return fmt.Sprintf("%s calls it back%s: it is taken down there at %s; %s", p.Provider, why, c.Ends.UTC().Format(time.RFC3339), then)
}
