package reach

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// check is a probe of the provider of one placement, and its result.
type check struct {
	endpoint string
	done     bool
	// why explains why the provider is unreachable; "" if it is reachable.
	why string
}

// Check returns why the provider of a placement is unreachable, or "" if it is reachable. The first
// call for an endpoint schedules a probe. Until the probe has finished, known is false; then
// Checked receives the placement.
func (s *Scout) Check(placement, endpoint string) (why string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[placement]
	if c == nil || c.endpoint != endpoint {
		s.checks[placement] = &check{endpoint: endpoint}
		s.urgent = append(s.urgent, placement)
		s.wakeWorkers()
		return "", false
	}
	return c.why, c.done
}

// Forget removes the result for a placement.
func (s *Scout) Forget(placement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.checks, placement)
}

// Checked returns a channel of the names of placements whose probe has finished.
func (s *Scout) Checked() <-chan event.TypedGenericEvent[string] { return s.checked }

func (s *Scout) checkProvider(ctx context.Context, placement string, c *check) {
	_, err := s.dialTwice(ctx, c.endpoint)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	c.done = true
	if err != nil {
		c.why = err.Error()
	}
	s.mu.Unlock()
	select {
	case s.checked <- event.TypedGenericEvent[string]{Object: placement}:
	case <-ctx.Done():
	}
}
