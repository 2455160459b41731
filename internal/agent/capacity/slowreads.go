package capacity

import (
	"context"
	"net"
	"time"
)

// gatherFor is how long events of pods and nodes may accumulate in a connection before they are
// read. An event that follows a longer time without events is read at once.
const gatherFor = 400 * time.Millisecond

// Dial is the type of net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Gather returns a Dial whose connections delay reads while the function calm returns true, so that
// one read returns many events. In a cluster whose pods change often, waking up for each event
// costs several times as much as processing it.
func Gather(dial Dial, calm func() bool) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gathering{Conn: conn, calm: calm}, nil
	}
}

// gathering is a connection that delays reads. It must have only one reader.
type gathering struct {
	net.Conn
	calm func() bool
	// drained is true if the last read returned everything that had arrived.
	drained bool
}

func (g *gathering) Read(b []byte) (int, error) {
	if g.drained && g.calm() {
		time.Sleep(gatherFor)
	}
	n, err := g.Conn.Read(b)
	g.drained = n < len(b)
	return n, err
}
