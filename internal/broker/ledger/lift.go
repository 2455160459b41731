package ledger

import (
	"fmt"
	"time"
)

// LiftPauses clears the failures of a cluster, as a provider and as a requester, and thus ends its
// pauses. An operator asks for it after investigating the failures.
type LiftPauses struct {
	ClusterID string `json:"clusterID"`
	// Mark identifies one request of the operator. It stays on the cluster's object, so the same
	// mark must not lift pauses that begin later.
	Mark string `json:"mark"`
}

// MaxMark is the maximum length of LiftPauses.Mark in bytes.
const MaxMark = 64

func (*LiftPauses) subject() string { return "" }

func (l *LiftPauses) checkAgainst(s *State) error {
	if l.Mark == "" || len(l.Mark) > MaxMark {
		return fmt.Errorf("pauses of %q: %w: a mark of %d bytes, want 1 to %d", l.ClusterID, ErrMalformed, len(l.Mark), MaxMark)
	}
	c := s.Cluster(l.ClusterID)
	switch {
	case c == nil:
		return fmt.Errorf("pauses of %q: %w", l.ClusterID, ErrUnknown)
	case c.Lifted == l.Mark:
		return fmt.Errorf("pauses of %q: %w: lifted with mark %q already", l.ClusterID, ErrTaken, l.Mark)
	}
	return nil
}

func (l *LiftPauses) applyTo(s *State, _ time.Time) {
	c := s.Cluster(l.ClusterID)
	c.Lifted, c.Providing, c.Consuming = l.Mark, nil, nil
}
