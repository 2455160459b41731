package server

import (
	"net"
	"sync"
)

const (
	// defaultConnections is how many connections one cluster may have. An agent uses one or two; over HTTP/1.1 it may
	// need one for each in-flight request.
	defaultConnections = 128
	// totalConnections bounds the memory for the connections of all clusters.
	totalConnections = 16384
)

// members counts the connections of each cluster that has shown its certificate. A cluster that exceeds its limit
// loses its oldest connection, so connections that an agent leaked do not lock it out. If all clusters together
// exceed the total, the cluster with the most connections loses one.
type members struct {
	total int
	// each returns the limit of one cluster.
	each func() int

	// mu guards the following fields.
	mu   sync.Mutex
	open map[string][]net.Conn
	sum  int
}

func newMembers(each func() int) *members {
	return &members{total: totalConnections, each: each, open: map[string][]net.Conn{}}
}

// joinMember counts a connection. If a limit is exceeded, it closes a connection and returns that connection's cluster and
// the limit.
func (m *members) joinMember(id string, c net.Conn) (over string, most int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.open[id] = append(m.open[id], c)
	m.sum++
	switch most = m.each(); {
	case len(m.open[id]) > most:
		over = id
	case m.sum > m.total:
		over, most = m.largestMember(), m.total
	default:
		return "", 0
	}
	oldest := m.open[over][0]
	m.removeConnection(over, oldest)
	_ = rawConn(oldest).Close() // this makes room for c
	return over, most
}

func (m *members) largestMember() string {
	largest := ""
	for id, open := range m.open {
		if n := len(m.open[largest]); len(open) > n || len(open) == n && id < largest {
			largest = id
		}
	}
	return largest
}

// leaveMember forgets a closed connection.
func (m *members) leaveMember(id string, c net.Conn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.removeConnection(id, c)
}

// removeConnection drops a connection from the count. mu must be locked.
func (m *members) removeConnection(id string, c net.Conn) {
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
