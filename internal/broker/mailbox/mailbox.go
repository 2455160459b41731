// Package mailbox passes messages between clusters, for the handshake of a peering. Messages are kept
// in memory only: senders repeat a message until it is answered.
package mailbox

import (
	"cmp"
	"slices"
	"strconv"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const (
	// maxSlots is how many messages of one sender may wait for one receiver.
	maxSlots = 64
	// maxSent is how many bytes of messages of one sender may wait for all receivers together. A
	// handshake takes a few thousand bytes.
	maxSent = 4 << 20
	// maxReceived is how many bytes of messages one answer contains at most, unless its only message
	// is larger. The next answer contains the rest.
	maxReceived = 1 << 20
	// messageTTL is how long a message waits. Senders repeat messages more often than that.
	messageTTL = 5 * time.Minute
)

// Mailbox holds the messages that wait for their receivers. A message replaces the sender's earlier
// one to the same receiver with the same slot name. A Mailbox is safe for concurrent use.
type Mailbox struct {
	now func() time.Time

	// mu guards the fields below.
	mu    sync.Mutex
	boxes map[string]*box
	// sent has the messages of each sender, the oldest first.
	sent map[string]*outbox
	// sequence is the number of the newest message. It starts at the current time, so that it is
	// ahead of all cursors of an earlier process.
	sequence int64
}

type box struct {
	slots   map[slot]envelope
	changed chan struct{}
}

type slot struct{ from, name string }

// outbox has the waiting messages of one sender; sum is their size in bytes.
type outbox struct {
	entries []sentMessage
	sum     int
}

type sentMessage struct {
	to       string
	slot     slot
	sequence int64
	at       time.Time
	size     int
}

type envelope struct {
	sequence int64
	at       time.Time
	body     []byte
}

// New returns an empty Mailbox. now returns the current time.
func New(now func() time.Time) *Mailbox {
	return &Mailbox{now: now, boxes: map[string]*box{}, sent: map[string]*outbox{}, sequence: now().UnixNano()}
}

func (m *Mailbox) boxOf(clusterID string) *box {
	x := m.boxes[clusterID]
	if x == nil {
		x = &box{slots: map[slot]envelope{}, changed: make(chan struct{})}
		m.boxes[clusterID] = x
	}
	return x
}

// Put stores a message and wakes its receiver. It returns fault.TooManyRequests if too many messages,
// or too many bytes, of the sender wait already.
func (m *Mailbox) Put(from string, msg *v1.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	x, key := m.boxOf(msg.To), slot{from, msg.Slot}
	if _, ok := x.slots[key]; !ok && x.makeRoom(from, m.now()) >= maxSlots {
		return fault.Over("messages", 10*time.Second, "%d messages of member %q wait for %q already, which is the maximum", maxSlots, from, msg.To)
	}
	if err := m.makeRoomFor(from, len(msg.Body)); err != nil {
		return err
	}
	m.sequence++
	x.slots[key] = envelope{m.sequence, m.now(), msg.Body}
	out := m.sent[from]
	out.entries = append(out.entries, sentMessage{msg.To, key, m.sequence, m.now(), len(msg.Body)})
	out.sum += len(msg.Body)
	close(x.changed)
	x.changed = make(chan struct{})
	return nil
}

// makeRoomFor drops a sender's messages that have expired or were replaced. It returns an error if
// a message of size bytes does not fit in addition to the remaining ones.
func (m *Mailbox) makeRoomFor(from string, size int) error {
	out := m.sent[from]
	if out == nil {
		out = &outbox{}
		m.sent[from] = out
	}
	kept := out.entries[:0]
	out.sum = 0
	for _, e := range out.entries {
		x := m.boxes[e.to]
		if x.slots[e.slot].sequence != e.sequence {
			continue
		}
		if m.now().Sub(e.at) > messageTTL {
			delete(x.slots, e.slot)
			continue
		}
		kept, out.sum = append(kept, e), out.sum+e.size
	}
	clear(out.entries[len(kept):])
	out.entries = kept
	if out.sum+size > maxSent {
		return fault.Over("messages", 10*time.Second, "member %q has %d of %d bytes of messages waiting, and sends %d more: send less, or wait until they are read",
			from, out.sum, maxSent, size)
	}
	return nil
}

// makeRoom drops expired messages and returns how many messages of the sender remain in the box.
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

// Since returns the messages for a cluster after the cursor, which is that of an earlier list or "",
// and a channel that is closed when the next message arrives.
func (m *Mailbox) Since(clusterID, cursor string) (*v1.MessageList, <-chan struct{}) {
	after, err := strconv.ParseInt(cursor, 10, 64)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || after > m.sequence {
		after = 0
	}
	x := m.boxOf(clusterID)
	list := &v1.MessageList{Cursor: strconv.FormatInt(m.sequence, 10), Messages: []v1.Message{}}
	var fresh []slot
	for key, e := range x.slots {
		if e.sequence > after && m.now().Sub(e.at) <= messageTTL {
			fresh = append(fresh, key)
		}
	}
	slices.SortFunc(fresh, func(a, b slot) int { return cmp.Compare(x.slots[a].sequence, x.slots[b].sequence) })
	size := 0
	for _, key := range fresh {
		e := x.slots[key]
		if size += len(e.body); size > maxReceived && len(list.Messages) > 0 {
			break
		}
		list.Messages = append(list.Messages, v1.Message{From: key.from, To: clusterID, Slot: key.name, Body: e.body})
		if len(list.Messages) < len(fresh) {
			list.Cursor = strconv.FormatInt(e.sequence, 10)
		} else {
			list.Cursor = strconv.FormatInt(m.sequence, 10)
		}
	}
	return list, x.changed
}
