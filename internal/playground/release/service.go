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

// dialTimeout is how long a pod may take to accept a connection.
const dialTimeout = 2 * time.Second

// service forwards the connections of one port of a Service to its pods in turn. It skips a pod that does not accept.
type service struct {
	mu   sync.Mutex // guards the following fields
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

// add adds a pod to the Service.
func (s *service) add(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.pods, pod) {
		s.pods = append(s.pods, pod)
	}
}

// remove removes a pod from the Service; its open connections stay.
func (s *service) remove(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = slices.DeleteFunc(s.pods, func(p string) bool { return p == pod })
}

// candidates returns the pods to try for a connection, in order.
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
	defer client.Close() //nolint:errcheck // the other end is gone
	dialer := &net.Dialer{Timeout: dialTimeout}
	for _, address := range s.candidates() {
		pod, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		defer pod.Close() //nolint:errcheck // the other end is gone
		stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), pod.Close() })
		defer stop()
		splice(client, pod)
		return
	}
}

// splice copies in both directions until both have ended.
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
