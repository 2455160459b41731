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

// farewell is what requests that are under way on the connection of a cluster that
// is shut out get to be answered.
const farewell = 500 * time.Millisecond

// connections are those that are open.
type connections struct {
	// mu guards the following.
	mu   sync.Mutex
	open map[net.Conn]*connection
}

// begin gives a connection a context that ends with it, and from which its requests
// take theirs.
func (cs *connections) begin(ctx context.Context, c net.Conn) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	connected := &connection{raw: rawConn(c), shut: func(why error) {
		cancel(why)
		// Idle ones have nobody to answer, but closing them at once would cut off the
		// answers of the others.
		time.AfterFunc(farewell, func() { _ = c.Close() })
	}}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = map[net.Conn]*connection{}
	}
	cs.open[c] = connected
	return context.WithValue(ctx, connectionKey{}, connected)
}

// of returns an open connection, nil for one that has ended.
func (cs *connections) of(c net.Conn) *connection {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[c]
}

func (cs *connections) end(c net.Conn) {
	cs.mu.Lock()
	ended := cs.open[c]
	delete(cs.open, c)
	cs.mu.Unlock()
	if ended != nil {
		ended.end()
	}
}

// enter lets the connection in for as long as it is open, and says at every request
// whether its cluster still takes part.
func (c *connection) enter(gate *access.Gate, clusterID string) error {
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

func (c *connection) end() {
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

// recognise counts the connection for the cluster whose certificate it has shown, once.
// It returns which cluster has lost a connection for that, and how many it may have.
func (c *connection) recognise(m *members, lobby *lobby, id string) (over string, most int) {
	c.mu.Lock()
	if c.forget != nil || c.over {
		c.mu.Unlock()
		return "", 0
	}
	c.forget = func() { m.leave(id, c.raw) }
	c.mu.Unlock()
	lobby.leave(c.raw)
	return m.join(id, c.raw)
}

// explainShut answers what was under way when its cluster was shut out with the
// reason for that, whatever the operation made of the end of its context.
func explainShut(next v1.StrictHandlerFunc, _ string) v1.StrictHandlerFunc {
	return func(ctx context.Context, w http.ResponseWriter, r *http.Request, request any) (any, error) {
		answer, err := next(ctx, w, r, request)
		if why, shut := errors.AsType[*fault.Error](context.Cause(ctx)); shut {
			w.Header().Set("Connection", "close")
			return nil, why
		}
		return answer, err
	}
}
