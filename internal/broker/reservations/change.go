package reservations

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Edit is a change of a reservation that a requester asks for.
type Edit struct {
	By         ledger.Actor
	Generation int64
	Duration   time.Duration
	// Amounts are the new amounts; nil if they do not change.
	Amounts quantity.Amounts
}

// EditReservation changes the duration and the amounts of a reservation. New amounts take effect
// when the provider's agent has agreed to them. A repetition of the last edit changes nothing; if the
// provider has refused that edit, it returns the refusal as an error.
func (rs *Reservations) EditReservation(r *ledger.Reservation, e Edit) error {
	if r.EndReason != "" {
		return fault.New(fault.Released, "reservation %q has ended (%s) and cannot be changed: make another", r.Name, term.EndOf(r))
	}
	q, err := e.requestAfter(r)
	if err != nil {
		return err
	}
	otherAmounts := !q.Amounts.Equal(r.Wanted())
	switch {
	case r.Refusal != nil && r.Refusal.Generation == e.Generation:
		return fault.New(fault.Conflict, "%s", r.Refusal.Reason)
	case e.Generation == r.Generation && e.Duration == r.Duration && !otherAmounts:
		return nil
	case e.Generation <= r.Generation:
		return fault.New(fault.Conflict, "reservation %q: change %d was overtaken by change %d", r.Name, e.Generation, r.Generation)
	}
	if err := rs.s.Bounds().Check(q); err != nil {
		return err
	}
	until, err := rs.newEnd(r, e.Duration)
	if err != nil {
		return err
	}
	change := &ledger.Edit{Name: r.Name, Generation: e.Generation, Digest: q.Digest(), Duration: e.Duration, Until: until}
	if otherAmounts {
		if err := rs.checkAmounts(r, q); err != nil {
			return err
		}
		change.Amounts = q.Amounts
	}
	rs.s.Log().Info("reservation changed", "reservation", r.Name, "requester", r.Requester, "by", e.By.String(),
		"generation", e.Generation, "duration", e.Duration.String(), "until", until.Format(time.RFC3339), "resources", q.Amounts.Describe())
	if change.Amounts != nil || r.Pending != nil {
		q.Amounts = r.Amounts
		change.Fallback = q.Digest()
	}
	return rs.s.Record(ledger.Event{By: e.By, Change: change})
}

func (e Edit) requestAfter(r *ledger.Reservation) (*requests.Request, error) {
	q := requests.Of(r)
	q.Duration, q.Amounts = e.Duration, e.Amounts
	if q.Amounts == nil {
		q.Amounts = r.Wanted()
	}
	return q, q.Complete()
}

func (rs *Reservations) newEnd(r *ledger.Reservation, duration time.Duration) (time.Time, error) {
	until, now := rs.endTime(r, duration), rs.s.Now()
	if !until.After(now) {
		return time.Time{}, fault.New(fault.Invalid, "duration: %s from %s on is over already: ask for more than %s, or release the reservation",
			duration, r.ReservedAt().Format(time.RFC3339), now.Sub(r.ReservedAt()).Truncate(time.Second))
	}
	return until, nil
}

// endTime returns when a reservation ends after a change of its duration. The end moves by as much
// as the duration changes. If the reservation had no duration so far, the new one counts from when
// its capacity was locked. If it has no duration any longer, it ends one lease from now. A waiting
// reservation is treated as if it were granted now.
func (rs *Reservations) endTime(r *ledger.Reservation, duration time.Duration) time.Time {
	switch {
	case r.Waiting != nil && duration != 0 && r.Duration != 0:
		return rs.s.Now().Add(r.Waiting.Left + duration - r.Duration)
	case r.Waiting != nil && duration != 0:
		return rs.s.Now().Add(duration)
	case duration == 0:
		return rs.s.Now().Add(term.Lease)
	case r.Duration == 0:
		return r.ReservedAt().Add(duration)
	default:
		return r.Until.Add(duration - r.Duration)
	}
}
