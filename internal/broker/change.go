package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/ledger"
)

// ChangeReservation implements the server's Broker.
func (b *Broker) ChangeReservation(ctx context.Context, clusterID, nameOrKey string, change *v1.ReservationChange) (*v1.Reservation, error) {
	if err := checkDuration(change.DurationSeconds); err != nil {
		return nil, err
	}
	var answer *v1.Reservation
	err := b.change(ctx, func(t *term) error {
		r, shut := t.find(clusterID, nameOrKey)
		switch {
		case shut:
			return fault.New(fault.Released, "key %q was released", nameOrKey)
		case r == nil:
			return fault.New(fault.NotFound, "cluster %q takes part in no reservation %q", clusterID, nameOrKey)
		case r.Requester != clusterID:
			return fault.New(fault.Forbidden, "reservation %q belongs to another cluster", r.Name)
		}
		if err := t.edit(r, change.Generation, time.Duration(change.DurationSeconds)*time.Second); err != nil {
			return err
		}
		answer = t.answer(r, clusterID)
		return nil
	})
	return answer, err
}

// ChangeObject is ChangeReservation for a reservation that was made in the broker
// cluster: generation is that of its object. A duration of 0 is the default one.
func (b *Broker) ChangeObject(ctx context.Context, name string, generation int64, duration time.Duration) (*ReservationView, error) {
	var view *ReservationView
	err := b.change(ctx, func(t *term) error {
		r := t.state.Reservation(name)
		if r == nil {
			return fault.New(fault.NotFound, "reservation %q is not in the book", name)
		}
		if duration == 0 {
			duration = b.config.DefaultTTL
		}
		if err := t.edit(r, generation, duration); err != nil {
			return err
		}
		view = t.viewOf(r)
		return nil
	})
	return view, err
}

// edit changes how long a reservation is held.
func (t *term) edit(r *ledger.Reservation, generation int64, duration time.Duration) error {
	switch {
	case r.EndReason != "":
		return fault.New(fault.Released, "reservation %q has ended (%s) and cannot be changed: make another", r.Name, endOf(r))
	case generation == r.Generation && duration == r.Duration:
		return nil
	case generation <= r.Generation:
		return fault.New(fault.Conflict, "reservation %q: change %d was overtaken by change %d", r.Name, generation, r.Generation)
	}
	q := askedFor(r)
	q.Duration = duration
	if err := t.b.config.Bounds.check(q); err != nil {
		return err
	}
	until, now := t.until(r, duration), t.now()
	if !until.After(now) {
		return fault.New(fault.Invalid, "duration: %s from %s on is over already: ask for more than %s, or give the reservation back",
			duration, r.ReservedAt().Format(time.RFC3339), now.Sub(r.ReservedAt()).Truncate(time.Second))
	}
	t.b.opts.Log.Info("reservation is changed", "reservation", r.Name, "requester", r.Requester,
		"generation", generation, "duration", duration.String(), "until", until.Format(time.RFC3339))
	return t.record(ledger.Event{Change: &ledger.Change{
		Name: r.Name, Generation: generation, Digest: q.digest(), Duration: duration, Until: until,
	}})
}

// until is when a reservation ends that is held for a duration: it counts from where
// the former duration did, or from now on while it waits.
func (t *term) until(r *ledger.Reservation, duration time.Duration) time.Time {
	switch {
	case r.Waiting != nil && duration != 0 && r.Duration != 0:
		return t.now().Add(r.Waiting.Left + duration - r.Duration)
	case r.Waiting != nil && duration != 0:
		return t.now().Add(duration)
	case duration == 0:
		return t.now().Add(lease)
	case r.Duration == 0:
		return r.ReservedAt().Add(duration)
	default:
		return r.Until.Add(duration - r.Duration)
	}
}

// checkDuration refuses a duration in seconds that nobody may ask for.
func checkDuration(seconds int64) error {
	if seconds != 0 && seconds < 60 {
		return fault.New(fault.Invalid, "durationSeconds: %d is too short, the least is 60", seconds)
	}
	if most := int64(LongestDuration / time.Second); seconds > most {
		return fault.New(fault.Invalid, "durationSeconds: %d is too long, the most is %d", seconds, most)
	}
	return nil
}
