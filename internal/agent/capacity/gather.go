package capacity

import (
	"context"
	"net"
	"time"
)

// gatherFor is how long news of pods and nodes may gather before they are read. News of a
// cluster where nothing has happened for so long are read at once.
const gatherFor = 400 * time.Millisecond

// Dial is net.Dialer.DialContext, or one that does the same.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Gather makes connections on which, once calm says so, what comes gathers for a moment
// before it is read. Where pods come and go all the time, to wake up for each of them
// costs several times what it takes to count it.
func Gather(dial Dial, calm func() bool) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gathering{Conn: conn, calm: calm}, nil
	}
}

// gathering is a connection that has one reader.
type gathering struct {
	net.Conn
	calm func() bool
	// drained reports whether the last read took all there was.
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
