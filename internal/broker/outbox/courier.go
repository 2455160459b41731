package outbox

import (
	"context"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/notify"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// courier delivers the events of one channel. Outbox.mu guards its fields, except channel, wake and isResumed.
type courier struct {
	channel notify.Channel
	wake    chan struct{}
	// isResumed is true once the queue begins after the last record in the channel's files. For a channel without files
	// it is always true.
	isResumed bool

	// queue holds the selected events that are not delivered yet, in order.
	queue []item
	// queued is the place up to which queue contains all selected events.
	queued journal.Place
	// isBehind is true if the queue was full, so that a later reader has to read again from queued.
	isBehind bool
	// done is the place up to which everything was delivered or dropped.
	done         journal.Place
	failingSince time.Time
	// deliveries counts the changes of done that delivered or dropped an event.
	deliveries uint64
}

// item is an event, and the place in the journal after its record.
type item struct {
	event notify.Event
	place journal.Place
}

// makeCouriers returns a courier for each channel. A channel without a cursor receives only events after the present
// end of the journal.
func (o *Outbox) makeCouriers(ctx context.Context, channels []notify.Channel, known map[string]cursor) ([]*courier, error) {
	end, err := journal.End(ctx, o.opts.Store, o.opts.Journal, o.opts.JournalOptions)
	if err != nil {
		return nil, err
	}
	var out []*courier
	for _, channel := range channels {
		c := &courier{channel: channel, wake: make(chan struct{}, 1), isResumed: channel.Files == nil, queued: end, done: end}
		if cursor, exists := known[channel.Name]; exists {
			c.queued, c.done, c.failingSince = cursor.Place, cursor.Place, cursor.FailingSince
		}
		if !c.isResumed {
			if err := o.resumeFiles(ctx, c, c.queued.Journal); err != nil {
				o.opts.Log.Error(err, "reading exported files failed, retrying before the next record is written", "channel", channel.Name)
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// resumeFiles moves a courier to the end of the channel's files. The cursor may be wrong: a former leader may have
// moved it after this leader had taken over the former one's file, or a write may have succeeded after files.use had
// given up.
func (o *Outbox) resumeFiles(ctx context.Context, c *courier, journalID string) error {
	end, err := o.files.resume(ctx, &c.channel, journalID)
	if err != nil {
		return err
	}
	c.isResumed = true
	o.mu.Lock()
	defer o.mu.Unlock()
	if end != (journal.Place{}) && end != c.done {
		c.queue, c.queued, c.done, c.isBehind = nil, end, end, true // the next reader continues from there
	}
	return nil
}

// queueEvents queues the events of a record that the channel selects. If the queue already contains at least limit
// events, it marks the courier as behind instead. It ignores a record that was queued before. The caller holds
// Outbox.mu.
func (c *courier) queueEvents(events []notify.Event, place journal.Place, limit int) {
	if c.isBehind || place.Position <= c.queued.Position {
		return
	}
	if len(c.queue) >= limit {
		c.isBehind = true
		return
	}
	c.queued = place
	for i := range events {
		if c.channel.Selects(&events[i]) {
			c.queue = append(c.queue, item{events[i], place})
		}
	}
	if len(c.queue) == 0 {
		c.done = place
	} else {
		c.wakeUp()
	}
}

func (c *courier) wakeUp() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// nextBatch returns the first events of the queue that are delivered together, nil if none are ready. The same queue
// always gives the same batch, whenever it is called, so that a repeated message has the same ID.
func (c *courier) nextBatch(horizon time.Time) []notify.Event {
	if len(c.queue) == 0 {
		return nil
	}
	switch {
	case c.channel.URL != "":
		return c.first(1)
	case c.channel.Files != nil:
		return c.first(min(len(c.queue), maxGroup))
	}
	ends := c.queue[0].event.Data.Time.Add(c.channel.GroupWait)
	n := 0
	for n < len(c.queue) && !c.queue[n].event.Data.Time.After(ends) && (n < maxGroup || c.queue[n].place == c.queue[n-1].place) {
		n++
	}
	if n == len(c.queue) && !horizon.After(ends) {
		return nil // more events may follow that belong to the message
	}
	return c.first(n)
}

func (c *courier) first(n int) []notify.Event {
	out := make([]notify.Event, n)
	for i := range out {
		out[i] = c.queue[i].event
	}
	return out
}

// removeFirst takes the first n events out of the queue. The caller holds Outbox.mu.
func (c *courier) removeFirst(n int) {
	last := c.queue[n-1].place
	clear(c.queue[:n])
	c.queue = c.queue[n:]
	c.deliveries++
	switch {
	case len(c.queue) == 0:
		c.done = c.queued
	case c.queue[0].place != last:
		c.done = last
	}
}

// deliverQueue sends the events of a channel, one message after the other, until ctx ends or this replica no longer
// serves.
func (o *Outbox) deliverQueue(ctx context.Context, c *courier) {
	attempts := 0
	for ctx.Err() == nil {
		o.mu.Lock()
		batch := c.nextBatch(o.horizon)
		journalID := c.queued.Journal
		o.mu.Unlock()
		if batch == nil {
			select {
			case <-c.wake:
			case <-ctx.Done():
			}
			continue
		}
		if _, serving := o.opts.Position(); !serving {
			return // the next leader sends it
		}
		var err error
		if c.isResumed {
			err = o.send(ctx, &c.channel, journalID, batch)
		} else if err = o.resumeFiles(ctx, c, journalID); err == nil {
			continue
		}
		switch {
		case err == nil:
			failpoint.Hit(failpoint.EventDelivered)
			attempts = 0
			o.noteDelivered(c, batch)
		case ctx.Err() != nil:
			return
		default:
			o.noteFailed(c, attempts, err)
			if !o.dropOld(c) {
				pauseFor(ctx, retryAfter(attempts), nil)
				attempts++
			}
		}
	}
}

// retryAfter returns the pause after a failed attempt. attempts is the number of failed attempts before it.
func retryAfter(attempts int) time.Duration { return min(firstRetry<<min(attempts, 10), lastRetry) }

func (o *Outbox) noteDelivered(c *courier, batch []notify.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	// If the journal was replaced in the meantime, the queue holds other events.
	if len(c.queue) >= len(batch) && c.queue[0].event.Data.Position == batch[0].Data.Position && c.queue[0].event.Index == batch[0].Index {
		c.removeFirst(len(batch))
	}
	c.failingSince = time.Time{}
	o.meter.countEvents(c.channel.Name, resultDelivered, len(batch))
}

// tellAfter is how many attempts must have failed before administrators are told about the next failure. Six attempts
// and the pauses after them take about a minute.
const tellAfter = 6

func (o *Outbox) noteFailed(c *courier, attempts int, err error) {
	o.meter.countEvents(c.channel.Name, resultFailed, 1)
	o.mu.Lock()
	if c.failingSince.IsZero() {
		c.failingSince = o.opts.Now()
	}
	o.mu.Unlock()
	if attempts == 0 {
		o.opts.Log.Error(err, "sending a notification failed, retrying", "channel", c.channel.Name)
	}
	if attempts == tellAfter {
		o.opts.Warn(ReasonFailing, fmt.Sprintf("channel %s: %v; the broker goes on trying for 24h", c.channel.Name, err))
	}
}

// dropOld drops the first events of the queue if they could not be delivered for giveUpAfter, and reports whether it
// did. For an event that is older than the first failure, the time counts from the first failure.
func (o *Outbox) dropOld(c *courier) bool {
	now := o.opts.Now()
	o.mu.Lock()
	n := 0
	for n < len(c.queue) {
		since := c.queue[n].event.Data.Time
		if since.Before(c.failingSince) {
			since = c.failingSince
		}
		if now.Sub(since) < giveUpAfter {
			break
		}
		n++
	}
	if n > 0 {
		c.removeFirst(n)
	}
	o.mu.Unlock()
	if n == 0 {
		return false
	}
	o.meter.countEvents(c.channel.Name, resultDropped, n)
	o.opts.Warn(ReasonDropped, fmt.Sprintf("channel %s: dropped %d events that could not be delivered for 24h", c.channel.Name, n))
	return true
}
