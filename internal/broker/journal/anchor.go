package journal

import (
	"context"
	"fmt"
	"time"
)

// Anchor is a place in a journal that a party outside of the journal remembers. Its hash covers
// every record up to the position. So if an earlier record is rewritten, the journal no longer agrees
// with the anchor, even if all hashes are recomputed.
type Anchor struct {
	// Journal is the random ID of the journal.
	Journal  string
	Position uint64
	// Hash is the chain's hash at the position, in hexadecimal.
	Hash string
	// At is when the party learned of the place; Journal.Anchor leaves it zero.
	At time.Time
	// By names the party; Journal.Anchor leaves it empty.
	By string
}

func (l link) anchorIn(journal string) Anchor {
	return Anchor{Journal: journal, Position: l.Position, Hash: l.Hash.String()}
}

// Anchor returns the place of the last stored record.
func (j *Journal) Anchor() Anchor {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.committed.anchorIn(j.id)
}

// Anchored is the outcome of VerifyAnchored or CompareAnchors. Every anchor is in one of its lists.
type Anchored struct {
	Verified
	// Agreed are the anchors with which the journal agrees.
	Agreed []Anchor
	// Trimmed are the anchors before the first kept record. The journal proves nothing about them.
	// Anchors younger than the journal's retention can be trimmed only if AtLimit is true.
	Trimmed []Anchor
	// AtLimit is true if the journal has the maximum number of sealed segments. It may then have
	// deleted records younger than its retention. Only VerifyAnchored sets it.
	AtLimit bool
	// Disagreed are the anchors that show that a record was rewritten or lost.
	Disagreed []Disagreement
}

// Disagreement is an anchor with which a journal does not agree.
type Disagreement struct {
	Anchor
	// Why says what the journal has instead.
	Why string
}

// VerifyAnchored does what Verify does, and compares the journal with anchors.
func VerifyAnchored(ctx context.Context, store Store, name string, opts Options, anchors []Anchor) (Anchored, error) {
	verified, chain, err := verifyChain(ctx, store, name, opts)
	if err != nil {
		return Anchored{}, err
	}
	places := map[uint64]string{}
	for _, s := range chain {
		for _, e := range s.entries {
			places[e.at.Position] = e.at.Hash.String()
		}
	}
	out := CompareAnchors(verified, places, anchors)
	out.AtLimit = verified.Segments-1 >= max(opts.withDefaults().RetainSegments, 0)
	return out, nil
}

// CompareAnchors compares verified records with anchors. places maps the position of each record to
// the hash of the chain there, in hexadecimal.
func CompareAnchors(verified Verified, places map[uint64]string, anchors []Anchor) Anchored {
	out := Anchored{Verified: verified}
	for _, a := range anchors {
		hash, kept := places[a.Position]
		switch {
		case a.Journal != verified.ID:
			out.addDisagreement(a, fmt.Sprintf("it is journal %s, and %q was told of journal %s: it was begun anew", verified.ID, a.By, a.Journal))
		case a.Position <= verified.After:
			out.Trimmed = append(out.Trimmed, a)
		case !kept:
			out.addDisagreement(a, fmt.Sprintf("it ends at position %d, and %q was told of position %d", verified.Head, a.By, a.Position))
		case hash != a.Hash:
			out.addDisagreement(a, fmt.Sprintf("a record up to position %d was rewritten: it has the hash %.16s there, and %q was told %.16s", a.Position, hash, a.By, a.Hash))
		default:
			out.Agreed = append(out.Agreed, a)
		}
	}
	return out
}

func (a *Anchored) addDisagreement(with Anchor, why string) {
	a.Disagreed = append(a.Disagreed, Disagreement{with, why})
}
