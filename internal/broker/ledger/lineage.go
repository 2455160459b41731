package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Lineage begins a new history of the book: the first one, or one that continues from an older
// state after records were lost. Clusters acted on the lost records, so each of them has to
// announce its holdings.
type Lineage struct {
	// ID is random and was never used before.
	ID string `json:"id"`
	// Key authenticates positions. Only the first lineage has one, so that every state that can
	// be restored knows it.
	Key []byte `json:"key,omitempty"`
	// Seen is a lost position that a cluster showed; 0 for the first lineage.
	Seen uint64 `json:"seen,omitempty"`
	// By is the cluster that showed the lost position.
	By string `json:"by,omitempty"`
}

// Branch is a lineage in the book.
type Branch struct {
	Lineage
	// Since is the position at which the lineage began.
	Since uint64
	At    time.Time
}

// lineagesKept bounds the remembered lineages. Positions of an older lineage are treated as
// unknown.
const lineagesKept = 32

// Lineages is the history of the book as a sequence of lineages.
type Lineages struct {
	// branches are ordered by age, oldest first.
	branches []Branch
	key      []byte
}

// Lineages returns the lineages of the book. The caller must not change them.
func (s *State) Lineages() *Lineages { return &s.lineages }

// Present returns the present lineage, nil before the first.
func (ls *Lineages) Present() *Branch {
	if len(ls.branches) == 0 {
		return nil
	}
	return &ls.branches[len(ls.branches)-1]
}

// Key returns the key that authenticates positions, nil before the first lineage.
func (ls *Lineages) Key() []byte { return ls.key }

// Restored reports whether the book continues from an older state. Clusters may then hold
// placements that the book does not have.
func (ls *Lineages) Restored() bool {
	b := ls.Present()
	return b != nil && b.By != ""
}

// LineageEnd returns the last position of a lineage that is part of this history, and reports
// whether the lineage is known.
func (s *State) LineageEnd(id string) (uint64, bool) {
	branches := s.lineages.branches
	for i := range branches {
		switch {
		case branches[i].ID != id:
		case i == len(branches)-1:
			return s.position, true
		default:
			return branches[i+1].Since - 1, true
		}
	}
	return 0, false
}

// Awaits reports whether a cluster's agent has not announced its holdings yet.
func (s *State) Awaits(clusterID string) bool {
	return s.lineages.Restored() && s.HasAgent(clusterID) && s.Cluster(clusterID).AnnouncedIn != s.lineages.Present().ID
}

func (*Lineage) subject() string { return "" }

func (l *Lineage) checkAgainst(s *State) error {
	first := s.lineages.Present() == nil
	if l.ID == "" || first != (l.Key != nil) || first != (l.By == "") {
		return fmt.Errorf("%w: lineage %q: the first one has a key, a later one the cluster that knew a lost position", ErrMalformed, l.ID)
	}
	if _, known := s.LineageEnd(l.ID); known {
		return fmt.Errorf("lineage %q: %w", l.ID, ErrTaken)
	}
	return nil
}

func (l *Lineage) applyTo(s *State, at time.Time) {
	if s.lineages.Present() != nil {
		for _, q := range s.quotes.AllHeld() {
			s.releaseQuote(q, HoldLost)
		}
	}
	s.lineages.beginLineage(l, s.position, at)
}

// beginLineage appends a lineage and drops the oldest ones beyond lineagesKept.
func (ls *Lineages) beginLineage(l *Lineage, since uint64, at time.Time) {
	if l.Key != nil {
		ls.key = slices.Clone(l.Key)
	}
	b := Branch{Lineage: *l, Since: since, At: at}
	b.Key = nil
	ls.branches = append(ls.branches, b)
	if extra := len(ls.branches) - lineagesKept; extra > 0 {
		ls.branches = slices.Delete(ls.branches, 0, extra)
	}
}

// Announced notes that a cluster has announced all placements that it provides and consumes.
type Announced struct {
	ClusterID string `json:"clusterID"`
}

func (*Announced) subject() string { return "" }

func (a *Announced) checkAgainst(s *State) error {
	if s.Cluster(a.ClusterID) == nil {
		return fmt.Errorf("cluster %q: %w", a.ClusterID, ErrUnknown)
	}
	return nil
}

func (a *Announced) applyTo(s *State, _ time.Time) {
	if b := s.lineages.Present(); b != nil {
		s.Cluster(a.ClusterID).AnnouncedIn = b.ID
	}
}
