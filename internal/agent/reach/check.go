package reach

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// check is one look at the provider of one placement.
type check struct {
	endpoint string
	done     bool
	// why it cannot be reached, "" if it can.
	why string
}

// Check says why the provider of a placement cannot be reached, "" if it can. The first
// call for an endpoint has it looked at and returns false; Checked tells when to ask again.
func (s *Scout) Check(placement, endpoint string) (why string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[placement]
	if c == nil || c.endpoint != endpoint {
		s.checks[placement] = &check{endpoint: endpoint}
		s.urgent = append(s.urgent, placement)
		s.wake()
		return "", false
	}
	return c.why, c.done
}

// Forget drops what is known of a placement.
func (s *Scout) Forget(placement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.checks, placement)
}

// Checked carries the names of placements of which Check knows more.
func (s *Scout) Checked() <-chan event.TypedGenericEvent[string] { return s.checked }

func (s *Scout) nextCheck() (string, *check) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.urgent) > 0 {
		placement := s.urgent[0]
		s.urgent = s.urgent[1:]
		if c := s.checks[placement]; c != nil && !c.done {
			return placement, c
		}
	}
	return "", nil
}

func (s *Scout) settle(ctx context.Context, placement string, c *check, err error) {
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
