package server

import (
	"net"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// lobbyRoom is the maximum number of open connections whose cluster is not known yet.
	lobbyRoom = 1024
	// lobbyGrace is how long a connection in the lobby is safe from being closed. A handshake takes milliseconds; three
	// seconds suffice on a busy machine.
	lobbyGrace = 3 * time.Second
)

// lobby limits the connections that are not authenticated yet. While it is full, new connections wait in the backlog of
// the operating system. The address with the most connections loses its oldest connection, but only after that
// connection's grace period. So an address that opens many idle connections delays others by at most the grace period.
type lobby struct {
	room  int
	grace time.Duration
	clock clock.PassiveClock

	// mu guards the following fields.
	mu     sync.Mutex
	guests map[net.Conn]*guest
	// changed is closed and replaced when a connection leaves the lobby.
	changed chan struct{}
}

type guest struct {
	address string
	since   time.Time
	// seated is true while a request of the guest is served. Such a guest does not lose its connection.
	seated bool
}

func newLobby(room int, clock clock.PassiveClock) *lobby {
	return &lobby{room: room, grace: lobbyGrace, clock: clock, guests: map[net.Conn]*guest{}, changed: make(chan struct{})}
}

// enterLobby waits until there is room for c or closed is closed.
func (l *lobby) enterLobby(c net.Conn, closed <-chan struct{}) {
	for !l.tryEnter(c) {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		select {
		case <-changed:
		case <-time.After(l.grace / 20):
		case <-closed:
			return
		}
	}
}

func (l *lobby) tryEnter(c net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.guests) >= l.room {
		out := l.findVictim()
		if out == nil {
			return false
		}
		delete(l.guests, out)
		_ = out.Close() // the guest was idle beyond its grace period
	}
	l.guests[c] = &guest{address: hostOf(c), since: l.clock.Now()}
	return true
}

// findVictim returns the oldest guest of the address with the most connections. It ignores guests that are seated or
// within their grace period, and returns nil if there are no others.
func (l *lobby) findVictim() net.Conn {
	count := map[string]int{}
	for _, g := range l.guests {
		count[g.address]++
	}
	var out net.Conn
	var chosen *guest
	for c, g := range l.guests {
		if g.seated || l.clock.Since(g.since) < l.grace {
			continue
		}
		more := chosen == nil || count[g.address] > count[chosen.address]
		if more || count[g.address] == count[chosen.address] && g.since.Before(chosen.since) {
			out, chosen = c, g
		}
	}
	return out
}

// leaveLobby removes c from the lobby. It is called when the cluster of c is known, and when c is closed.
func (l *lobby) leaveLobby(c net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.guests[c] == nil {
		return
	}
	delete(l.guests, c)
	close(l.changed)
	l.changed = make(chan struct{})
}

// seatGuest keeps c from being evicted until done is called.
func (l *lobby) seatGuest(c net.Conn) (done func()) {
	set := func(seated bool) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if g := l.guests[c]; g != nil {
			g.seated, g.since = seated, l.clock.Now()
		}
	}
	set(true)
	return func() { set(false) }
}

// wrapListener wraps a listener so that it accepts a connection only when there is room for it.
func (l *lobby) wrapListener(inner net.Listener) net.Listener {
	return &lobbyListener{Listener: inner, lobby: l, closed: make(chan struct{})}
}

type lobbyListener struct {
	net.Listener
	lobby  *lobby
	once   sync.Once
	closed chan struct{}
}

func (l *lobbyListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.lobby.enterLobby(c, l.closed)
	return c, nil
}

func (l *lobbyListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// hostOf returns the remote address of a connection without its port.
func hostOf(c net.Conn) string {
	address := c.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}

// rawConn returns the connection below TLS, which is the one that the listener accepted.
func rawConn(c net.Conn) net.Conn {
	if secured, ok := c.(interface{ NetConn() net.Conn }); ok {
		return secured.NetConn()
	}
	return c
}
