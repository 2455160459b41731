package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Lineage begins another history: the first one, or one that goes on from an older
// state after positions were lost. What clusters were told of the lost part is true
// all the same, so each has to announce what it has.
type Lineage struct {
	// ID was never used before.
	ID string `json:"id"`
	// Key authenticates positions. Only the first lineage brings one: it must be known
	// to every state that can be restored.
	Key []byte `json:"key,omitempty"`
	// Seen is a lost position that a cluster had been told of; 0 for the first lineage.
	Seen uint64 `json:"seen,omitempty"`
	// By is who knew of it.
	By string `json:"by,omitempty"`
}

// Announced means that a cluster has told everything that it provides and consumes.
type Announced struct {
	ClusterID string `json:"clusterID"`
}

// Branch is a lineage in the book.
type Branch struct {
	Lineage
	// Since is the position at which it began.
	Since uint64
	At    time.Time
}

// lineagesKept is how many lineages are remembered: positions of an older one are
// those of a stranger.
const lineagesKept = 32

// Branch is the present one; nil before the first.
func (s *State) Branch() *Branch {
	if len(s.branches) == 0 {
		return nil
	}
	return &s.branches[len(s.branches)-1]
}

// Key authenticates positions; nil before the first lineage.
func (s *State) Key() []byte { return s.key }

// LineageEnd is the last position of a lineage that is part of this history, and
// whether the lineage is known.
func (s *State) LineageEnd(id string) (uint64, bool) {
	for i := range s.branches {
		switch {
		case s.branches[i].ID != id:
		case i == len(s.branches)-1:
			return s.position, true
		default:
			return s.branches[i+1].Since - 1, true
		}
	}
	return 0, false
}

// Restored is whether the book goes on from an older state, so that clusters know
// what it does not.
func (s *State) Restored() bool {
	b := s.Branch()
	return b != nil && b.By != ""
}

// Awaits is whether a cluster's agent has yet to announce what it has.
func (s *State) Awaits(clusterID string) bool {
	return s.Restored() && s.HasAgent(clusterID) && s.clusters[clusterID].AnnouncedIn != s.Branch().ID
}

func (*Lineage) subject() string { return "" }

func (l *Lineage) checkAgainst(s *State) error {
	first := s.Branch() == nil
	if l.ID == "" || first != (l.Key != nil) || first != (l.By == "") {
		return fmt.Errorf("%w: lineage %q: the first one has a key, a later one who knew of a lost position", ErrMalformed, l.ID)
	}
	if _, known := s.LineageEnd(l.ID); known {
		return fmt.Errorf("lineage %q: %w", l.ID, ErrTaken)
	}
	return nil
}

func (l *Lineage) applyTo(s *State, at time.Time) {
	if l.Key != nil {
		s.key = slices.Clone(l.Key)
	}
	if s.Branch() != nil {
		s.loseHolds()
	}
	b := Branch{Lineage: *l, Since: s.position, At: at}
	b.Key = nil
	s.branches = append(s.branches, b)
	if extra := len(s.branches) - lineagesKept; extra > 0 {
		s.branches = slices.Delete(s.branches, 0, extra)
	}
}

func (*Announced) subject() string { return "" }

func (a *Announced) checkAgainst(s *State) error {
	if s.clusters[a.ClusterID] == nil {
		return fmt.Errorf("cluster %q: %w", a.ClusterID, ErrUnknown)
	}
	return nil
}

func (a *Announced) applyTo(s *State, _ time.Time) {
	if b := s.Branch(); b != nil {
		s.clusters[a.ClusterID].AnnouncedIn = b.ID
	}
}
