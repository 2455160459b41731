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
	// leaderTimeout is how long a connection waits until a leader is known and answers. It is shorter than
	// the timeout of the agents' TLS handshake.
	leaderTimeout = 1500 * time.Millisecond
	// dialTimeout is the timeout for connecting to the leader.
	dialTimeout = time.Second
	// redial is the pause before the next attempt if the leader does not answer.
	redial = 100 * time.Millisecond
	// linger is how long responses may still be sent after a change of leader. After that, the connections
	// are closed, and the agents connect to the new leader.
	linger = 250 * time.Millisecond
)

// Elected knows the current leader. Election implements it.
type Elected interface {
	Leader() (Leader, <-chan struct{})
}

// Front is the listener to which agents connect. It forwards their connections to the leader, if that is another
// replica. Accept returns only the connections that this replica serves itself: all of them while it leads, otherwise
// those for which no leader is found, whose requests the server refuses.
//
// Front is a runnable of a controller-runtime manager. Accept returns no connection before Start.
type Front struct {
	listener net.Listener
	elected  Elected
	log      logr.Logger
	own      chan net.Conn
	// closed is a context that ends with Close.
	closed context.Context
	close  context.CancelFunc
}

// NewFront returns a Front that accepts connections from a TCP listener. Front.Close closes the listener.
func NewFront(listener net.Listener, elected Elected, log logr.Logger) *Front {
	closed, closeNow := context.WithCancel(context.Background())
	return &Front{
		listener: listener, elected: elected, log: log,
		own: make(chan net.Conn), closed: closed, close: closeNow,
	}
}

var _ net.Listener = (*Front)(nil)

// Accept returns the next connection that this replica serves itself.
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

// Close closes the listener and all forwarded connections.
func (f *Front) Close() error {
	f.close()
	if err := f.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // Start has already closed the listener
}

// NeedLeaderElection returns false, because the Front must also run on followers, which forward
// connections.
func (*Front) NeedLeaderElection() bool { return false }

// Start accepts connections until the Front is closed or ctx ends.
func (f *Front) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, f.close)()
	defer context.AfterFunc(f.closed, func() { _ = f.listener.Close() })() // the listener may already be closed, which does no harm
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
			// For example, the process has no file descriptors left, or the client has already disconnected.
			f.log.Error(err, "accepting a connection failed")
			pauseFor(f.closed, redial)
		}
	}
}

// routeConnection forwards a connection to the leader until the connection ends or the leader changes. If
// this replica leads or no leader is found, this replica's server gets the connection.
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
	_, _ = c.Close(), leader.Close() // an error means that the connection has already ended
	<-ended
}

// serveHere passes a connection to this replica's server through Accept. The server then decides when to close it. If
// the leader changes, serveHere closes the connection after a pause, the constant linger.
func (f *Front) serveHere(c net.Conn, changed <-chan struct{}) {
	own := &ownConn{Conn: c, ended: make(chan struct{})}
	select {
	case f.own <- own:
	case <-f.closed.Done():
		_ = c.Close() // an error is harmless, because nothing was sent
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

// awaitEnd returns when a forwarded connection has ended or must be closed because the leader has changed.
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

// dialLeader connects to the leader. It returns nil if this replica leads, or if no leader answers in
// time. The returned channel is closed when the leader changes.
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

// spliceConnections copies data in both directions until both sides have ended. If one side closes only
// its direction, the other side can still send.
func spliceConnections(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { copyHalf(b, a) })
	both.Go(func() { copyHalf(a, b) })
	both.Wait()
}

func copyHalf(to, from net.Conn) {
	_, _ = io.Copy(to, from) // after an error on either side, both connections are closed
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// ownConn is a connection that this replica serves. It closes the channel ended when the server closes it.
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
