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
	// patience is how long a connection waits for a leader. It is less than what
	// agents wait for a handshake.
	patience = 1500 * time.Millisecond
	// dialTimeout of a connection to the leader.
	dialTimeout = time.Second
	// redial is the pause after a leader that did not answer.
	redial = 100 * time.Millisecond
	// linger is what answers under way get when the leader changes, before their
	// connections are cut and agents connect to the next one.
	linger = 250 * time.Millisecond
)

// Elected tells who leads; an Election does.
type Elected interface {
	Leader() (Leader, <-chan struct{})
}

// Front is the listener that agents connect to. It is a net.Listener of the
// connections that this replica serves itself: all while it leads, and those that
// find no leader, which the server then refuses. All others go on to the leader.
//
// It is a runnable of a controller-runtime manager; Accept returns nothing before
// Start.
type Front struct {
	listener net.Listener
	elected  Elected
	log      logr.Logger
	own      chan net.Conn
	// closed ends with Close.
	closed context.Context
	close  context.CancelFunc
}

// NewFront takes a TCP listener over.
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

// Addr is the listener's.
func (f *Front) Addr() net.Addr { return f.listener.Addr() }

// Close ends the listener, and with it what was passed on.
func (f *Front) Close() error {
	f.close()
	if err := f.listener.Close(); !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil // Start was first
}

// NeedLeaderElection is false: it is the follower that needs it.
func (*Front) NeedLeaderElection() bool { return false }

// Start accepts until the Front is closed or ctx ends.
func (f *Front) Start(ctx context.Context) error {
	defer context.AfterFunc(ctx, f.close)()
	defer context.AfterFunc(f.closed, func() { _ = f.listener.Close() })() // closed twice at worst
	var under sync.WaitGroup
	defer under.Wait()
	for {
		c, err := f.listener.Accept()
		switch {
		case err == nil:
			under.Go(func() { f.carry(c) })
		case f.closed.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		default:
			// Out of descriptors, or a connection that ended before it was accepted.
			f.log.Error(err, "no connection was accepted")
			pause(f.closed, redial)
		}
	}
}

// carry brings one connection to whoever leads, and cuts it when that changes.
func (f *Front) carry(c net.Conn) {
	leader, changed := f.find()
	if leader == nil {
		f.serve(c, changed)
		return
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		splice(c, leader)
	}()
	f.await(changed, ended)
	_, _ = c.Close(), leader.Close() // they may have ended by themselves
	<-ended
}

// serve hands a connection to this replica's server. Once it has it, ending is the
// server's business, but for a change of the leader.
func (f *Front) serve(c net.Conn, changed <-chan struct{}) {
	own := &ownConn{Conn: c, ended: make(chan struct{})}
	select {
	case f.own <- own:
	case <-f.closed.Done():
		_ = c.Close() // nothing was said yet
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

// await returns when a connection has ended or is to be cut.
func (f *Front) await(changed, ended <-chan struct{}) {
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

// find connects to the leader. It returns nil where that is this replica, or nobody
// answers in time; changed is closed when that is no longer so.
func (f *Front) find() (net.Conn, <-chan struct{}) {
	ctx, cancel := context.WithTimeout(f.closed, patience)
	defer cancel()
	for {
		who, changed := f.elected.Leader()
		if who.Here || ctx.Err() != nil {
			return nil, changed
		}
		wait := patience
		if who.Address != "" {
			c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", who.Address)
			if err == nil {
				return c, changed
			}
			f.log.V(1).Info("the leader does not answer", "address", who.Address, "reason", err.Error())
			wait = redial
		}
		select {
		case <-changed:
		case <-ctx.Done():
		case <-time.After(wait):
		}
	}
}

// splice copies both ways until both sides have ended. A side that ends its half is
// still answered.
func splice(a, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pass(b, a) })
	both.Go(func() { pass(a, b) })
	both.Wait()
}

func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from) // whoever broke it, both are told
	if half, ok := to.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

// ownConn tells when the server has closed it.
type ownConn struct {
	net.Conn
	once  sync.Once
	ended chan struct{}
}

func (c *ownConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return c.Conn.Close()
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
