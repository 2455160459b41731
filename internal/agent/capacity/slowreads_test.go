package capacity

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Small pieces are read together once calm returns true, and at once before that. No data is
// lost.
func TestNewsGathers(t *testing.T) {
	for calm, reads := range map[bool]int{false: 100, true: 3} {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			buffered := &backlog{Conn: near, news: make(chan byte, 1000)}
			dial := Gather(func(context.Context, string, string) (net.Conn, error) { return buffered, nil }, func() bool { return calm })
			conn, err := dial(t.Context(), "tcp", "api:443")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _, _ = near.Close(), far.Close() }()
			go func() {
				for range 100 {
					buffered.news <- 'x'
					time.Sleep(10 * time.Millisecond)
				}
				close(buffered.news)
			}()
			all, err := io.ReadAll(conn)
			if err != nil || len(all) != 100 {
				t.Errorf("calm %t: %d bytes, %v", calm, len(all), err)
			}
			if got := buffered.reads; got > reads+1 || got < reads {
				t.Errorf("calm %t: %d reads, want about %d", calm, got, reads)
			}
		})
	}
}

// backlog is a connection that buffers incoming data until it is read.
type backlog struct {
	net.Conn
	news  chan byte
	reads int
}

func (c *backlog) Read(b []byte) (int, error) {
	first, more := <-c.news
	if !more {
		return 0, io.EOF
	}
	c.reads++
	b[0] = first
	n := 1
	for n < len(b) && len(c.news) > 0 {
		b[n] = <-c.news
		n++
	}
	return n, nil
}
