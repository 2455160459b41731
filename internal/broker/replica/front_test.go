package replica

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"go.uber.org/goleak"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fixed is an election whose result the test sets.
type fixed struct {
	mu      sync.Mutex
	leader  Leader
	changed chan struct{}
}

func elect(l Leader) *fixed { return &fixed{leader: l, changed: make(chan struct{})} }

func (f *fixed) Leader() (Leader, <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.leader, f.changed
}

func (f *fixed) become(l Leader) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.leader = l
	close(f.changed)
	f.changed = make(chan struct{})
}

func listener(t *testing.T) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	runtest.Check(t, err)
	return l
}

// parrot sends its name on each connection and echoes what it reads. When the client has closed its
// sending side, parrot says goodbye.
func parrot(t *testing.T, name string, l net.Listener) {
	t.Helper()
	var under sync.WaitGroup
	under.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			under.Go(func() {
				defer c.Close() //nolint:errcheck // cut by the front at times
				_, _ = io.WriteString(c, name+"\n")
				if _, err := io.Copy(c, c); err == nil {
					_, _ = io.WriteString(c, "bye\n")
				}
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		under.Wait()
	})
}

func startFront(t *testing.T, e Elected) *Front {
	t.Helper()
	f := NewFront(listener(t), e, logr.Discard())
	done := make(chan error, 1)
	go func() { done <- f.Start(t.Context()) }()
	t.Cleanup(func() {
		_ = f.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return f
}

// caller is the client side of a connection.
type caller struct {
	net.Conn
	t       *testing.T
	answers *bufio.Reader
}

func call(t *testing.T, f *Front) *caller {
	t.Helper()
	c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", f.Addr().String())
	runtest.Check(t, err)
	t.Cleanup(func() { _ = c.Close() })
	runtest.Check(t, c.SetDeadline(time.Now().Add(5*time.Minute)))
	return &caller{c, t, bufio.NewReader(c)}
}

func (c *caller) hears(want string) {
	c.t.Helper()
	line, err := c.answers.ReadString('\n')
	if err != nil || line != want+"\n" {
		c.t.Fatalf("heard %q, %v; want %q", line, err, want)
	}
}

func (c *caller) says(line string) {
	c.t.Helper()
	if _, err := io.WriteString(c, line+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

func (c *caller) isCut() {
	c.t.Helper()
	line, err := c.answers.ReadString('\n')
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		c.t.Fatalf("heard %q, %v; want the connection cut", line, err)
	}
}

func TestFrontRoutesConnections(t *testing.T) {
	here, there := Leader{Here: true}, func(l net.Listener) Leader { return Leader{Address: l.Addr().String()} }
	dead := func(t *testing.T) Leader {
		l := listener(t)
		defer l.Close() //nolint:errcheck // nothing was done with it
		return there(l)
	}

	t.Run("to this replica while it leads", func(t *testing.T) {
		f := startFront(t, elect(here))
		parrot(t, "here", f)
		c := call(t, f)
		c.hears("here")
		c.says("hello")
		c.hears("hello")
	})
	t.Run("to another leader, which still answers after a half-close", func(t *testing.T) {
		leader := listener(t)
		parrot(t, "there", leader)
		f := startFront(t, elect(there(leader)))
		parrot(t, "here", f)
		c := call(t, f)
		c.hears("there")
		c.says("hello")
		c.hears("hello")
		runtest.Check(t, c.Conn.(*net.TCPConn).CloseWrite())
		c.hears("bye")
		c.isCut()
	})
	t.Run("to the leader that is elected while it waits", func(t *testing.T) {
		leader := listener(t)
		parrot(t, "there", leader)
		e := elect(Leader{})
		f := startFront(t, e)
		c := call(t, f)
		e.become(there(leader))
		c.hears("there")
	})
	t.Run("to this replica, which refuses it, if there is no leader or it is dead", func(t *testing.T) {
		for _, absent := range []Leader{{}, dead(t)} {
			f := startFront(t, elect(absent))
			parrot(t, "here", f)
			call(t, f).hears("here")
		}
	})
	t.Run("to the next leader, after a cut when the leader changes", func(t *testing.T) {
		first, second := listener(t), listener(t)
		parrot(t, "first", first)
		parrot(t, "second", second)
		e := elect(there(first))
		f := startFront(t, e)
		parrot(t, "here", f)
		for _, step := range []struct {
			leader Leader
			name   string
		}{{there(first), "first"}, {there(second), "second"}, {here, "here"}, {there(first), "first"}} {
			e.become(step.leader)
			c := call(t, f)
			c.hears(step.name)
			defer c.isCut()
		}
		e.become(Leader{})
	})
	t.Run("nowhere after the front is closed", func(t *testing.T) {
		leader := listener(t)
		parrot(t, "there", leader)
		f := startFront(t, elect(there(leader)))
		c := call(t, f)
		c.hears("there")
		runtest.Check(t, f.Close())
		c.isCut()
		if _, err := f.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accepting gives %v, want %v", err, net.ErrClosed)
		}
	})
}
