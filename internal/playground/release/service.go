package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"
)

// dialing is how long a pod may take to accept a connection.
const dialing = 2 * time.Second

// service passes the connections of one port of a Service to the pods behind it, each
// pod in its turn. One that does not accept is passed over.
type service struct {
	mu   sync.Mutex // guards the following
	pods []string   // addresses
	turn int
}

// serve accepts connections at an address until ctx ends.
func (s *service) serve(ctx context.Context, at string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("address of a Service: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = listener.Close() }) // it ends with the cluster
	go func() {
		for {
			client, err := listener.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				go s.pass(ctx, client)
			}
		}
	}()
	return nil
}

// add makes a pod one that is behind the Service.
func (s *service) add(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.pods, pod) {
		s.pods = append(s.pods, pod)
	}
}

// remove keeps new connections from a pod; those it has stay.
func (s *service) remove(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = slices.DeleteFunc(s.pods, func(p string) bool { return p == pod })
}

// candidates are the pods to try for a connection, in order.
func (s *service) candidates() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pods) == 0 {
		return nil
	}
	s.turn = (s.turn + 1) % len(s.pods)
	return slices.Concat(s.pods[s.turn:], s.pods[:s.turn])
}

func (s *service) pass(ctx context.Context, client net.Conn) {
	defer client.Close() //nolint:errcheck // its other end has gone
	dialer := &net.Dialer{Timeout: dialing}
	for _, address := range s.candidates() {
		pod, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		defer pod.Close() //nolint:errcheck // its other end has gone
		stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), pod.Close() })
		defer stop()
		splice(client, pod)
		return
	}
}

// splice returns when both directions are over.
func splice(a, b net.Conn) {
	var wg sync.WaitGroup
	for _, way := range [][2]net.Conn{{a, b}, {b, a}} {
		wg.Go(func() {
			_, _ = io.Copy(way[0], way[1]) // a broken connection ends like a closed one
			if half, ok := way[0].(*net.TCPConn); ok {
				_ = half.CloseWrite()
			}
		})
	}
	wg.Wait()
}
