package outbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
)

// reader reads the journal forward and returns the events of its records.
type reader struct {
	walker *journal.Walker
	book   *notify.Book
}

// openReader returns a reader for all couriers. It starts before the first record that any of them has not read. A
// courier whose place is no longer part of the journal continues at the end of the journal.
func (o *Outbox) openReader(ctx context.Context, couriers []*courier) (*reader, error) {
	end, err := journal.End(ctx, o.opts.Store, o.opts.Journal, o.opts.JournalOptions)
	if err != nil {
		return nil, err
	}
	for {
		from := o.resumeCouriers(couriers, end)
		walker, state, err := journal.Walk(ctx, o.opts.Store, o.opts.Journal, o.opts.JournalOptions, from)
		if errors.Is(err, journal.ErrNotFound) && from != end {
			o.skipLost(couriers, func(c *courier) bool { return c.queued.Position <= from.Position }, end)
			continue
		}
		if err != nil {
			return nil, err
		}
		book, err := replay.Read(journal.Recovery{Checkpoint: state})
		if err != nil {
			return nil, fmt.Errorf("replaying the journal for notifications: %w", err)
		}
		records := slices.ContainsFunc(couriers, func(c *courier) bool { return c.channel.TakesRecords() })
		return &reader{walker, notify.NewBook(book.State, records)}, nil
	}
}

// resumeCouriers allows couriers to queue events again if they have room, and returns the first place from which one
// of them continues.
func (o *Outbox) resumeCouriers(couriers []*courier, end journal.Place) journal.Place {
	o.skipLost(couriers, func(c *courier) bool {
		return c.queued.Journal != end.Journal || c.queued.Position > end.Position
	}, end)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.horizon = time.Time{}
	from := end
	for _, c := range couriers {
		c.isBehind = len(c.queue) >= o.maxQueue
		if !c.isBehind && c.queued.Position < from.Position {
			from = c.queued
		}
	}
	return from
}

// skipLost moves the selected couriers to a place and drops their queues, because records that they have not read
// were deleted or replaced.
func (o *Outbox) skipLost(couriers []*courier, isLost func(*courier) bool, to journal.Place) {
	for _, c := range couriers {
		o.mu.Lock()
		lost := isLost(c)
		if lost {
			c.queue, c.queued, c.done = nil, to, to
			c.deliveries++
		}
		o.mu.Unlock()
		if lost {
			o.meter.countEvents(c.channel.Name, resultLost, 1)
			o.opts.Warn(ReasonLost, fmt.Sprintf("channel %s: events before %d of the journal are lost, because their records no longer exist; events after them are sent", c.channel.Name, to.Position))
		}
	}
}

// hasRoomBehind reports whether a courier has missed records that the reader has already read, and has room for their
// events again: its queue is at most half full.
func (o *Outbox) hasRoomBehind(couriers []*courier, r *reader) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range couriers {
		if c.isBehind && len(c.queue) <= o.maxQueue/2 && c.queued.Position < r.walker.Position() {
			return true
		}
	}
	return false
}

// readUpTo reads the records up to a position, and gives their events to the couriers. It returns false
// if some of the records are not stored yet.
func (o *Outbox) readUpTo(ctx context.Context, r *reader, couriers []*courier, position uint64) (bool, error) {
	for r.walker.Position() < position {
		entries, err := r.walker.Next(ctx)
		if err != nil {
			return false, err
		}
		if len(entries) == 0 {
			return false, nil
		}
		for i := range entries {
			events, err := r.book.Read(&entries[i])
			if err != nil {
				return false, err
			}
			o.enqueueEvents(couriers, events, r.walker.After(&entries[i]))
		}
	}
	return true, nil
}

// enqueueEvents gives the events of a record to the couriers that have not read the record yet. place is the place of
// the record. A courier that has read another record at this position is moved to place, see skipLost.
func (o *Outbox) enqueueEvents(couriers []*courier, events []notify.Event, place journal.Place) {
	o.skipLost(couriers, func(c *courier) bool { return c.queued.Position == place.Position && c.queued != place }, place)
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, c := range couriers {
		c.queueEvents(events, place, o.maxQueue)
	}
}
