package ledger

import "fmt"

// LiftPauses forgets what went wrong between a cluster and its counterparts, as a provider
// and as a requester: an operator has looked at it.
type LiftPauses struct {
	ClusterID string `json:"clusterID"`
	// Mark tells one request of the operator from the next: it stays in the cluster's object,
	// and pauses that begin later are not lifted by it.
	Mark string `json:"mark"`
}

// MaxMark is the length of the longest mark.
const MaxMark = 64

func (s *State) checkLiftPauses(l *LiftPauses) error {
	if l.Mark == "" || len(l.Mark) > MaxMark {
		return fmt.Errorf("pauses of %q: %w: a mark of %d bytes, want 1 to %d", l.ClusterID, ErrMalformed, len(l.Mark), MaxMark)
	}
	c := s.clusters[l.ClusterID]
	switch {
	case c == nil:
		return fmt.Errorf("pauses of %q: %w", l.ClusterID, ErrUnknown)
	case c.Lifted == l.Mark:
		return fmt.Errorf("pauses of %q: %w: lifted with mark %q already", l.ClusterID, ErrTaken, l.Mark)
	}
	return nil
}

func (s *State) applyLiftPauses(l *LiftPauses) {
	c := s.clusters[l.ClusterID]
	c.Lifted, c.Providing, c.Consuming = l.Mark, nil, nil
}
