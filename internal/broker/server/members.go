package server

import (
	"net"
	"sync"
)

const (
	// defaultConnections is how many connections one cluster may have. An agent has one or
	// two; over HTTP/1.1 it may need one for each request under way.
	defaultConnections = 128
	// totalConnections bounds the memory that connections of all clusters take.
	totalConnections = 16384
)

// members counts the connections of every cluster that has shown its certificate. A cluster
// that opens one too many loses its oldest one, so what an agent has left open by mistake
// does not lock it out. Where all clusters together have too many, the cluster with the
// most loses one.
type members struct {
	total int
	// each is how many one cluster may have.
	each func() int

	// mu guards the following.
	mu   sync.Mutex
	open map[string][]net.Conn
	sum  int
}

func newMembers(each func() int) *members {
	return &members{total: totalConnections, each: each, open: map[string][]net.Conn{}}
}

// join notes a connection of a cluster, and returns whose connection it closed in return
// and how many that cluster may have; "" for none.
func (m *members) join(id string, c net.Conn) (over string, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[id] = append(m.open[id], c)
	m.sum++
	switch most = m.each(); {
	case len(m.open[id]) > most:
		over = id
	case m.sum > m.total:
		over, most = m.largest(), m.total
	default:
		return "", 0
	}
	oldest := m.open[over][0]
	m.remove(over, oldest)
	_ = rawConn(oldest).Close() // its cluster has too many
	return over, most
}

func (m *members) largest() string {
	largest := ""
	for id, open := range m.open {
		if n := len(m.open[largest]); len(open) > n || len(open) == n && id < largest {
			largest = id
		}
	}
	return largest
}

// leave forgets a connection that has ended.
func (m *members) leave(id string, c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.remove(id, c)
}

// remove needs mu.
func (m *members) remove(id string, c net.Conn) {
	open := m.open[id]
	for i := range open {
		if open[i] != c {
			continue
		}
		m.sum--
		if m.open[id] = append(open[:i:i], open[i+1:]...); len(m.open[id]) == 0 {
			delete(m.open, id)
		}
		return
	}
}
