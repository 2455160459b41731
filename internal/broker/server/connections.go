package server

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// denialGrace is how long the connections of a denied cluster stay open, so that in-flight requests get their answer.
const denialGrace = 500 * time.Millisecond

// connections holds the open connections of a server.
type connections struct {
	// mu guards the following field.
	mu   sync.Mutex
	open map[net.Conn]*connection
}

// beginConnection registers a connection and gives it a context, from which the contexts of its requests derive. This
// context ends when the connection is shut.
func (cs *connections) beginConnection(ctx context.Context, c net.Conn) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	connected := &connection{raw: rawConn(c), shut: func(why error) {
		cancel(why)
		// Closing at once would cut off the answers to in-flight requests.
		time.AfterFunc(denialGrace, func() { _ = c.Close() })
	}}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[net.Conn]*connection{}
	}
	cs.open[c] = connected
	return context.WithValue(ctx, connectionKey{}, connected)
}

// connectionOf returns what is registered for an open connection; nil if the connection is closed.
func (cs *connections) connectionOf(c net.Conn) *connection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[c]
}

func (cs *connections) endConnection(c net.Conn) {
	cs.mu.Lock()
	ended := cs.open[c]
	delete(cs.open, c)
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
	if c.forget != nil {
		c.forget()
	}
}

// countForCluster counts the connection for the cluster of its certificate, once. If a limit is exceeded, it returns
// the cluster whose oldest connection was closed, and the limit; else "".
func (c *connection) countForCluster(m *members, lobby *lobby, id string) (over string, most int) {
	c.mu.Lock()
	if c.forget != nil || c.over {
		c.mu.Unlock()
		return "", 0
	}
	c.forget = func() { m.leaveMember(id, c.raw) }
	c.mu.Unlock()
	lobby.leaveLobby(c.raw)
	return m.joinMember(id, c.raw)
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
