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
	// maxSent is how many bytes of messages of one sender may wait for all receivers together. Each
	// message counts plainMessage bytes more than its body. A handshake takes a few thousand bytes.
	maxSent      = 4 << 20
	plainMessage = 1 << 10
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
	mu       sync.Mutex
	messages map[slot]envelope
	// arrivals has, by receiver, a channel that is closed when the next message arrives.
	arrivals map[string]chan struct{}
	// sequence is the number of the newest message. It starts at the current time, so that it is
	// ahead of all cursors of an earlier process.
	sequence int64
}

type slot struct{ from, to, name string }

type envelope struct {
	sequence int64
	at       time.Time
	body     []byte
}

// New returns an empty Mailbox. now returns the current time.
func New(now func() time.Time) *Mailbox {
	return &Mailbox{now: now, messages: map[slot]envelope{}, arrivals: map[string]chan struct{}{}, sequence: now().UnixNano()}
}

// Put stores a message and wakes its receiver. It drops expired messages, and returns
// fault.TooManyRequests if too many bytes of the sender wait already.
func (m *Mailbox) Put(from string, msg *v1.Message) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, now, waiting := slot{from, msg.To, msg.Slot}, m.now(), 0
	for k, e := range m.messages {
		switch {
		case now.Sub(e.at) > messageTTL:
			delete(m.messages, k)
		case k.from == from && k != key:
			waiting += len(e.body) + plainMessage
		}
	}
	if size := len(msg.Body) + plainMessage; waiting+size > maxSent {
		return fault.Over("messages", 10*time.Second, "member %q has %d of %d bytes of messages waiting, and sends %d more: send less, or wait until they are read",
			from, waiting, maxSent, size)
	}
	m.sequence++
	m.messages[key] = envelope{m.sequence, now, msg.Body}
	if arrival := m.arrivals[msg.To]; arrival != nil {
		close(arrival)
		delete(m.arrivals, msg.To)
	}
	return nil
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
	if m.arrivals[clusterID] == nil {
		m.arrivals[clusterID] = make(chan struct{})
	}
	list := &v1.MessageList{Cursor: strconv.FormatInt(m.sequence, 10), Messages: []v1.Message{}}
	var fresh []slot
	for key, e := range m.messages {
		if key.to == clusterID && e.sequence > after && m.now().Sub(e.at) <= messageTTL {
			fresh = append(fresh, key)
		}
	}
	slices.SortFunc(fresh, func(a, b slot) int { return cmp.Compare(m.messages[a].sequence, m.messages[b].sequence) })
	size := 0
	for i, key := range fresh {
		e := m.messages[key]
		if size += len(e.body); size > maxReceived && i > 0 {
			list.Cursor = strconv.FormatInt(m.messages[fresh[i-1]].sequence, 10)
			break
		}
		list.Messages = append(list.Messages, v1.Message{From: key.from, To: clusterID, Slot: key.name, Body: e.body})
	}
	return list, m.arrivals[clusterID]
}
