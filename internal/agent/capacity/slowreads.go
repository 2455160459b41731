package capacity

import (
	"context"
	"net"
	"time"
)

// gatherFor is how long events of pods and nodes may accumulate before they are read. After an
// idle period of this length, the next event is read at once.
const gatherFor = 400 * time.Millisecond

// Dial has the contract of net.Dialer.DialContext.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Gather makes connections that delay reads while calm returns true, so that events accumulate.
// In a cluster with many pod changes, waking up for each event costs several times as much as
// processing it.
func Gather(dial Dial, calm func() bool) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &gathering{Conn: conn, calm: calm}, nil
	}
}

// gathering is a connection with one reader.
type gathering struct {
	net.Conn
	calm func() bool
	// drained reports whether the last read emptied the connection.
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
