package ledger

import (
	"fmt"
	"slices"
	"time"
)

// Lineage begins a new part of the book's history. The first one begins the book. A later one
// continues from an older state after records were lost, for example because the journal was
// restored from a backup. Clusters have acted on the lost records, so each of them has to announce
// its holdings.
type Lineage struct {
	// ID is random, so no other lineage has it.
	ID string `json:"id"`
	// Key is the secret key with which the broker authenticates its cursors. A cursor is the newest
	// position that a cluster has seen; the cluster sends it with its calls. Only the first lineage
	// has one. It is recorded before any cursor is issued, so a state that clusters have seen
	// contains the key, whichever backup it is restored from.
	Key []byte `json:"key,omitempty"`
	// Seen is the position in the cursor that revealed the loss; 0 for the first lineage.
	Seen uint64 `json:"seen,omitempty"`
	// By is the cluster that sent this cursor, or "the broker".
	By string `json:"by,omitempty"`
}

// Branch is a lineage with the position and the time at which it began.
type Branch struct {
	Lineage
	// Since is a position in the journal.
	Since uint64
	At    time.Time
}

// lineagesKept is how many lineages are remembered. A position in an older lineage is treated as
// unknown.
const lineagesKept = 32

// Lineages is the history of the book as a sequence of lineages.
type Lineages struct {
	// branches are sorted from the oldest to the newest.
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

// Key returns the key of the MAC in cursors, nil before the first lineage.
func (ls *Lineages) Key() []byte { return ls.key }

// Restored reports whether the book continues from an older state, after records were lost.
// Clusters may then have placements that the book does not have.
func (ls *Lineages) Restored() bool {
	b := ls.Present()
	return b != nil && b.By != ""
}

// LineageEnd returns the last position up to which a lineage is part of the book, and whether the
// book knows the lineage. Later positions of an earlier lineage were lost.
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

// Awaits reports whether the cluster's agent must still announce its holdings, because the book was
// restored.
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

// beginLineage appends a lineage and drops the oldest ones if there are more than lineagesKept.
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

// Announced records that a cluster has announced all placements that it provides and consumes.
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
