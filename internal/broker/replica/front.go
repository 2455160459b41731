package replica

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// leaderTimeout is how long a connection waits for a leader. It is less than agents' handshake
	// timeout.
	leaderTimeout = 1500 * time.Millisecond
	// dialTimeout of a connection to the leader.
	dialTimeout = time.Second
	// redial is the pause after a leader that did not answer.
	redial = 100 * time.Millisecond
	// linger is how long responses in flight may finish after a change of leader, before their
	// connections are cut and agents connect to the new leader.
	linger = 250 * time.Millisecond
)

// Elected reports the current leader. Election implements it.
type Elected interface {
	Leader() (Leader, <-chan struct{})
}

// Front is the listener that agents connect to. Its Accept returns the connections that this
// replica serves itself: all while it leads, and those for which no leader is found, which the
// server then refuses. It forwards all others to the leader.
//
// It is a runnable of a controller-runtime manager; Accept returns nothing before Start.
type Front struct {
	listener net.Listener
	elected  Elected
	log      logr.Logger
	own      chan net.Conn
	// closed is cancelled by Close.
	closed context.Context
	close  context.CancelFunc
}

// NewFront takes over a TCP listener.
func NewFront(listener net.Listener, elected Elected, log logr.Logger) *Front {
	closed, closeNow := context.WithCancel(context.Background())
	return &Front{
		listener: listener, elected: elected, log: log,
		own: make(chan net.Conn), closed: closed, close: closeNow,
	}
}

var _ net.Listener = (*Front)(nil)

// Accept returns a connection to serve here.
func (f *Front) Accept() (net.Conn, error) {
	select {
	case c := <-f.own:
		return c, nil
	case <-f.closed.Done():
		return nil, net.ErrClosed
	}
}

// Addr returns the listener's address.
func (f *Front) Addr() net.Addr { return f.listener.Addr() }

// Close closes the listener and cuts the forwarded connections.
func (f *Front) Close() error {
	f.close()
	if err := f.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // Start closed it first
}

// NeedLeaderElection returns false: followers need the Front most.
func (*Front) NeedLeaderElection() bool { return false }

// Start accepts connections until the Front is closed or ctx ends.
func (f *Front) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, f.close)()
	defer context.AfterFunc(f.closed, func() { _ = f.listener.Close() })() // a second close at worst
	var under sync.WaitGroup
	defer under.Wait()
	for {
		c, err := f.listener.Accept()
		switch {
		case err == nil:
			under.Go(func() { f.routeConnection(c) })
		case f.closed.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Out of file descriptors, or the client disconnected before it was accepted.
			f.log.Error(err, "accepting a connection failed")
			pauseFor(f.closed, redial)
		}
	}
}

// routeConnection connects one connection to the leader, and cuts it when the leader changes.
func (f *Front) routeConnection(c net.Conn) {
	leader, changed := f.dialLeader()
	if leader == nil {
		f.serveHere(c, changed)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		spliceConnections(c, leader)
	}()
	f.awaitEnd(changed, ended)
	_, _ = c.Close(), leader.Close() // they may have ended by themselves
	<-ended
}

// serveHere hands a connection to this replica's server, which then owns it; only a change of
// leader cuts it.
func (f *Front) serveHere(c net.Conn, changed <-chan struct{}) {
	own := &ownConn{Conn: c, ended: make(chan struct{})}
	select {
	case f.own <- own:
	case <-f.closed.Done():
		_ = c.Close() // nothing was sent yet
		return
	}
	select {
	case <-own.ended:
		return
	case <-changed:
	case <-f.closed.Done():
		return
	}
	select {
	case <-own.ended:
	case <-time.After(linger):
		_ = own.Close()
	case <-f.closed.Done():
	}
}

// awaitEnd returns when a connection has ended or must be cut.
func (f *Front) awaitEnd(changed, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-changed:
	case <-f.closed.Done():
	}
	select {
	case <-ended:
	case <-time.After(linger):
	}
}

// dialLeader connects to the leader. It returns nil if this replica leads, or if no leader
// answers in time; changed is closed when that changes.
func (f *Front) dialLeader() (net.Conn, <-chan struct{}) {
	ctx, cancel := context.WithTimeout(f.closed, leaderTimeout)
	defer cancel()
	for {
		who, changed := f.elected.Leader()
		if who.Here || ctx.Err() != nil {
			return nil, changed
		}
		wait := leaderTimeout
		if who.Address != "" {
			c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", who.Address)
			if err == nil {
				return c, changed
			}
			f.log.V(1).Info("leader does not answer", "address", who.Address, "reason", err.Error())
			wait = redial
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// spliceConnections copies in both directions until both sides have ended. After one side half-closes, the
// other can still respond.
func spliceConnections(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { copyHalf(b, a) })
	both.Go(func() { copyHalf(a, b) })
	both.Wait()
}

func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from) // whichever side failed, both are closed
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// ownConn signals when the server has closed it.
type ownConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *ownConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

func pauseFor(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
