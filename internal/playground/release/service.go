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

// service forwards connections to one port of a Service to the Service's pods in turn. If a pod does not accept a
// connection, it tries the next pod.
type service struct {
	mu   sync.Mutex // guards the fields below
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

// add adds a pod's address to the Service.
func (s *service) add(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.pods, pod) {
		s.pods = append(s.pods, pod)
	}
}

// remove removes a pod's address from the Service. Open connections to the pod stay open.
func (s *service) remove(pod string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = slices.DeleteFunc(s.pods, func(p string) bool { return p == pod })
}

// setPods sets the addresses of the Service's pods. Open connections to other pods stay open.
func (s *service) setPods(pods []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = pods
}

// candidates returns the addresses of the pods in the order in which they are tried for a connection. Each call begins
// with the next pod, so that connections are spread over all pods.
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
	defer client.Close() //nolint:errcheck // the other end is gone, so an error does not matter
	dialer := &net.Dialer{Timeout: dialTimeout}
	for _, address := range s.candidates() {
		pod, err := dialer.DialContext(ctx, "tcp", address)
		if err != nil {
			continue
		}
		defer pod.Close() //nolint:errcheck // the other end is gone, so an error does not matter
		stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), pod.Close() })
		defer stop()
		splice(client, pod)
		return
	}
}

// splice copies data between two connections, in both directions, until both directions have ended.
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
