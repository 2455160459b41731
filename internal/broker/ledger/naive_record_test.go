package ledger

import (
	"fmt"
	"math"
	"time"
)

// naiveOutcome is what became of a grant, and when. took is the time from the grant until the node
// was Ready.
type naiveOutcome struct {
	provider, kind string
	at             time.Time
	took           time.Duration
}

// weights says, for each kind of outcome, how many kept and how many broken promises it counts as.
var weights = map[string]struct{ kept, broken float64 }{
	"ready": {1, 0}, "refused": {0, 0.5}, "unanswered": {0, 1}, "never ready": {0, 1}, "dropped": {0, 1},
}

// countDelivered counts a success of a grant. The grants before it, back to the last one that was
// Ready, count as failures if they were withdrawn because their node did not become Ready.
func (n *naive) countDelivered(g *naiveGrant, at time.Time) {
	n.outcomes = append(n.outcomes, naiveOutcome{g.provider, "ready", at, at.Sub(g.assigned)})
	n.noteGood(naiveParty{g.provider, false}, at, g, g.entry.requester)
	for number := g.number - 1; number > 0; number-- {
		before := n.findGrant(PlacementRef{Name: g.entry.name, Placement: number})
		if before == nil || before.readyOnce {
			return
		}
		if why := n.why[before]; why == "NeverReady" || why == "NeverConnected" || why == "HandshakeRefused" {
			n.outcomes = append(n.outcomes, naiveOutcome{provider: before.provider, kind: "never ready", at: at})
			n.noteBad(naiveParty{before.provider, false}, at, before, g.entry.requester, 2)
		}
	}
}

func (n *naive) noteWithdrawn(g *naiveGrant, e *Event) {
	n.why[g] = e.Change.(*Withdraw).Reason
	n.blameProvider(g, e)
	kind := ""
	switch {
	case e.Change.(*Withdraw).Reason == "ProviderLost", e.Change.(*Withdraw).Reason == "NodeNotReady", e.Change.(*Withdraw).Refused && g.readyOnce:
		kind = "dropped"
	case e.Change.(*Withdraw).Refused:
		kind = "refused"
	case e.Change.(*Withdraw).Reason == "Unacknowledged":
		kind = "unanswered"
	default:
		return
	}
	n.outcomes = append(n.outcomes, naiveOutcome{provider: g.provider, kind: kind, at: e.At})
}

// recordDiffers recounts all outcomes of a cluster. It halves their weight every week exactly,
// while the book rounds, so the sums may differ by two thousandths.
func (n *naive) recordDiffers(s *State, id string) error {
	record := s.Cluster(id).Record
	counts, took := map[string]int64{}, time.Duration(0)
	kept, broken := 0.0, 0.0
	for _, o := range n.outcomes {
		if o.provider != id {
			continue
		}
		counts[o.kind]++
		took += o.took
		if w, counts := weights[o.kind]; counts {
			half := math.Pow(2, float64(o.at.Unix()/(7*24*3600)-record.Week))
			kept, broken = kept+half*w.kept, broken+half*w.broken
		}
	}
	got := map[string]int64{
		"granted": record.Granted, "ready": record.Ready, "refused": record.Refused, "unanswered": record.Unanswered,
		"never ready": record.NeverReady, "dropped": record.Dropped,
	}
	for kind, count := range got {
		if counts[kind] != count {
			return fmt.Errorf("%d %s, want %d", count, kind, counts[kind])
		}
	}
	if record.ToReady != took {
		return fmt.Errorf("%s to Ready, want %s", record.ToReady, took)
	}
	if k, b := float64(record.Kept)/1000, float64(record.Broken)/1000; math.Abs(k-kept) > 0.002 || math.Abs(b-broken) > 0.002 {
		return fmt.Errorf("%f promises kept and %f broken, want %f and %f", k, b, kept, broken)
	}
	return nil
}
