package queueing

import (
	"fmt"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// PlaceOf returns a reservation's place in the queue, nil if it does not wait.
func (qu *Queue) PlaceOf(r *ledger.Reservation) *term.QueuePlace {
	w := r.Waiting
	if w == nil {
		return nil
	}
	v := &term.QueuePlace{
		Place: qu.line.Place(r.Name), Length: qu.line.Len(), Since: w.Since, Until: w.Until,
		Reason: v1.QueuePlaceReasonNoCandidate,
	}
	p := r.Current()
	switch {
	case w.Preemption != nil:
		v.Reason = v1.QueuePlaceReasonPreempting
	case p != nil && p.Withdrawn == ledger.Preempted:
		v.Reason = v1.QueuePlaceReasonPreempted
	case qu.s.Rules().Paused:
		v.Reason = v1.QueuePlaceReasonQueuePaused
	}
	return v
}

// RefreshAfter returns how long the requester should wait before it fetches its place in the queue
// again.
func (qu *Queue) RefreshAfter(r *ledger.Reservation) time.Duration {
	if qu.line.Place(r.Name) <= FrontPlaces {
		return FrontRefresh
	}
	return Refresh
}

// DescribeWait returns a text that says why the reservation waits.
func (qu *Queue) DescribeWait(r *ledger.Reservation) string {
	v := qu.PlaceOf(r)
	text := fmt.Sprintf("waits for capacity, place %d of %d", v.Place, v.Length)
	if qu.s.Rules().Paused {
		text += "; the broker's administrator has paused the queue"
	}
	switch v.Reason {
	case v1.QueuePlaceReasonPreempting:
		return text + "; " + qu.describeVictims(r)
	case v1.QueuePlaceReasonPreempted:
		text += "; a request of a higher priority took its capacity on " + r.Current().Provider
	}
	if p := r.Current(); p != nil && p.Withdrawn == ledger.Recalled {
		text += "; " + p.Provider + " has called its capacity back"
	} else if p != nil && p.Withdrawn == ledger.Drained {
		text += "; the broker's administrator has drained " + p.Provider
	}
	if r.Explanation == "" || qu.s.Rules().Paused {
		return text
	}
	return text + ": " + qu.s.ExplainRejections(requests.Of(r), r.Explanation)
}

// NoticeMessage returns the text of the notice to make room. It contains priorities and times, but
// does not reveal the other requester.
func (qu *Queue) NoticeMessage(r *ledger.Reservation) string {
	then := "then it ends, unless another cluster has room"
	if r.Queue {
		then = "then it goes elsewhere or waits for capacity"
	}
	return fmt.Sprintf("a request of priority %d needs the capacity of this reservation, of priority %d, on %s: the placement ends at %s; %s",
		r.Notice.Priority, qu.priorityOf(r), r.Placement(r.Notice.Placement).Provider, r.Notice.Ends.UTC().Format(time.RFC3339), then)
}

// describeVictims says how many victims still have to make room for a waiting reservation, and
// until when.
func (qu *Queue) describeVictims(r *ledger.Reservation) string {
	p, left := r.Waiting.Preemption, 0
	for _, ref := range p.Victims {
		if qu.s.Book().Held(ref) {
			left++
		}
	}
	what := []string{fmt.Sprintf("%d of %d reservations of a lower priority on %s must still make room", left, len(p.Victims), p.Provider)}
	if qu.s.Now().Before(p.Ends) {
		what = append(what, "they have until "+p.Ends.UTC().Format(time.RFC3339))
	}
	return strings.Join(what, "; ")
}
