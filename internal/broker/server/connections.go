package server

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// denialGrace is how long the connections of a denied cluster stay open, so that in-flight requests get their answer.
const denialGrace = 500 * time.Millisecond

const (
	// defaultConnections is how many connections one cluster may have. An agent uses at most 18, one for each in-flight
	// request.
	defaultConnections = 128
	// totalConnections bounds the memory for all connections. While as many are open, further ones wait in the backlog
	// of the operating system. A connection without a certificate ends when its handshake fails or headerTimeout is
	// over.
	totalConnections = 16384
)

type connections struct {
	// mu guards the following fields.
	mu   sync.Mutex
	open map[net.Conn]*connection
	// ofCluster has the connections of each cluster that has shown its certificate, the oldest first.
	ofCluster map[string][]*connection
}

// beginConnection registers a connection and gives it a context, from which the contexts of its requests derive. This
// context ends when the connection is shut.
func (cs *connections) beginConnection(ctx context.Context, c net.Conn) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	connected := &connection{raw: c, shut: func(why error) {
		cancel(why)
		// Closing at once would cut off the answers to in-flight requests.
		time.AfterFunc(denialGrace, func() { _ = c.Close() })
	}}
	if secured, ok := c.(*tls.Conn); ok {
		connected.raw = secured.NetConn()
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open, cs.ofCluster = map[net.Conn]*connection{}, map[string][]*connection{}
	}
	cs.open[c] = connected
	return context.WithValue(ctx, connectionKey{}, connected)
}

// joinCluster counts a connection for the cluster of its certificate, once. If the cluster then has more than most
// connections, joinCluster closes the oldest one and returns true. So connections that an agent leaked do not lock it
// out.
func (cs *connections) joinCluster(c net.Conn, clusterID string, most int) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	connected := cs.open[c]
	if connected == nil || connected.member != "" {
		return false
	}
	connected.member = clusterID
	cs.ofCluster[clusterID] = append(cs.ofCluster[clusterID], connected)
	if len(cs.ofCluster[clusterID]) <= most {
		return false
	}
	oldest := cs.ofCluster[clusterID][0]
	cs.leaveCluster(oldest)
	_ = oldest.raw.Close() // this makes room for c
	return true
}

// leaveCluster ends counting a connection for its cluster. mu must be locked.
func (cs *connections) leaveCluster(c *connection) {
	left := slices.DeleteFunc(cs.ofCluster[c.member], func(other *connection) bool { return other == c })
	if cs.ofCluster[c.member] = left; len(left) == 0 {
		delete(cs.ofCluster, c.member)
	}
}

func (cs *connections) endConnection(c net.Conn) {
	cs.mu.Lock()
	ended := cs.open[c]
	if ended != nil {
		delete(cs.open, c)
		cs.leaveCluster(ended)
	}
	cs.mu.Unlock()
	if ended != nil {
		ended.endRequests()
	}
}

// enterGate registers the connection at the gate on the first request, so that the gate can close the connection. On
// every request it checks whether the cluster still takes part.
func (c *connection) enterGate(gate *access.Gate, clusterID string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leave == nil && !c.over {
		leave, err := gate.Enter(clusterID, c.shut)
		if err != nil {
			return err
		}
		c.leave = leave
	}
	return gate.Check(clusterID)
}

func (c *connection) endRequests() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	if c.leave != nil {
		c.leave()
	}
}

// explainDenial answers the in-flight requests of a denied cluster with the reason for the denial. It replaces the
// error that the operation returned when its context ended.
func explainDenial(next v1.StrictHandlerFunc, _ string) v1.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		answer, err := next(ctx, w, r, request)
		if why, shut := errors.AsType[*fault.Error](context.Cause(ctx)); shut {
			w.Header().Set("Connection", "close")
			return nil, why
		}
		return answer, err
	}
}
