package broker

import (
	"context"
	"strconv"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// maxSlots is how many messages of one sender wait for one receiver.
	maxSlots = 64
	// messageTTL is how long a message waits; senders repeat more often.
	messageTTL = 5 * time.Minute
)

// mailbox passes envelopes between clusters that share a reservation. It is memory
// alone: senders repeat until they are answered.
type mailbox struct {
	now func() time.Time

	// mu guards the following.
	mu    sync.Mutex
	boxes map[string]*box
	// sequence starts at the time of the start, so that a cursor of a former
	// process lies behind.
	sequence int64
}

type box struct {
	slots   map[slot]envelope
	changed chan struct{}
}

type slot struct{ from, name string }

type envelope struct {
	sequence int64
	at       time.Time
	body     []byte
}

func newMailbox(now func() time.Time) *mailbox {
	return &mailbox{now: now, boxes: map[string]*box{}, sequence: now().UnixNano()}
}

// SendMessage implements the server's Broker. Only clusters that share a
// reservation have anything to say to each other.
func (b *Broker) SendMessage(ctx context.Context, clusterID string, msg *v1.Message) error {
	err := b.change(ctx, func(t *term) error {
		if !t.share(clusterID, msg.To) {
			return fault.New(fault.Forbidden, "cluster %q shares no reservation with %q", clusterID, msg.To)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := b.mailbox.put(clusterID, msg); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerMessageKept)
	return nil
}

func (t *term) share(a, b string) bool {
	for r := range t.newsOf(a).all(t.state) {
		if takesPart(b, r) && takesPart(a, r) && !r.Unclaimed && !t.state.Over(r) {
			return true
		}
	}
	return false
}

// ReceiveMessages implements the server's Broker.
func (b *Broker) ReceiveMessages(ctx context.Context, clusterID, cursor string, wait time.Duration) (*v1.MessageList, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		list, changed := b.mailbox.since(clusterID, cursor)
		b.mu.Lock()
		_, err := b.current()
		ended := b.ended
		b.mu.Unlock()
		if err != nil {
			// The box that fills is another replica's.
			return nil, err
		}
		if len(list.Messages) > 0 {
			return list, nil
		}
		select {
		case <-changed:
		case <-ended:
		case <-ctx.Done():
			return list, nil
		}
	}
}

func (m *mailbox) boxOf(clusterID string) *box {
	x := m.boxes[clusterID]
	if x == nil {
		x = &box{slots: map[slot]envelope{}, changed: make(chan struct{})}
		m.boxes[clusterID] = x
	}
	return x
}

func (m *mailbox) put(from string, msg *v1.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	x, key := m.boxOf(msg.To), slot{from, msg.Slot}
	if _, ok := x.slots[key]; !ok && x.makeRoom(from, m.now()) >= maxSlots {
		e := fault.New(fault.TooManyRequests, "%d messages of %q wait for %q already", maxSlots, from, msg.To)
		e.RetryAfter = 10 * time.Second
		return e
	}
	m.sequence++
	x.slots[key] = envelope{m.sequence, m.now(), msg.Body}
	close(x.changed)
	x.changed = make(chan struct{})
	return nil
}

// makeRoom drops what waited too long and counts what is left of one sender.
func (x *box) makeRoom(from string, now time.Time) int {
	n := 0
	for key, e := range x.slots {
		switch {
		case now.Sub(e.at) > messageTTL:
			delete(x.slots, key)
		case key.from == from:
			n++
		}
	}
	return n
}

func (m *mailbox) since(clusterID, cursor string) (*v1.MessageList, <-chan struct{}) {
	after, err := strconv.ParseInt(cursor, 10, 64)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || after > m.sequence {
		after = 0
	}
	x := m.boxOf(clusterID)
	list := &v1.MessageList{Cursor: strconv.FormatInt(m.sequence, 10), Messages: []v1.Message{}}
	for key, e := range x.slots {
		if e.sequence > after && m.now().Sub(e.at) <= messageTTL {
			list.Messages = append(list.Messages, v1.Message{From: key.from, To: clusterID, Slot: key.name, Body: e.body})
		}
	}
	return list, x.changed
}
