package ledger

import (
	"fmt"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// naiveParty is a cluster in one of its roles.
type naiveParty struct {
	id       string
	consumes bool
}

type naiveExcess struct {
	pods    int32
	amounts quantity.Amounts
}

// noteDealing adds a counterpart's experience to the reputation of a party.
func (n *naive) noteDealing(p naiveParty, add func(*reputation.Reputation) *reputation.Reputation) {
	if n.clusters[p.id] != nil {
		n.reputations[p] = add(n.reputations[p])
	}
}

func (n *naive) noteGood(p naiveParty, at time.Time, g *naiveGrant, peer string) {
	n.noteDealing(p, func(r *reputation.Reputation) *reputation.Reputation { return r.Served(at, g.assigned, peer) })
}

func (n *naive) noteBad(p naiveParty, at time.Time, g *naiveGrant, peer string, points int32) {
	n.noteDealing(p, func(r *reputation.Reputation) *reputation.Reputation { return r.Failed(at, g.assigned, peer, points) })
}

// blameProvider notes the points that the provider of a withdrawn placement gets for the reason of
// the withdrawal; none for most reasons.
func (n *naive) blameProvider(g *naiveGrant, e *Event) {
	points := int32(0)
	if e.Change.(*Withdraw).Reason != "ProviderLost" {
		switch {
		case e.Change.(*Withdraw).Reason == "NodeNotReady":
			points = 2
		case e.Change.(*Withdraw).Refused && g.acked.IsZero():
			points = 1
		case e.Change.(*Withdraw).Refused, e.Change.(*Withdraw).Reason == "Unacknowledged":
			points = 2
		}
	}
	if points > 0 {
		n.noteBad(naiveParty{g.provider, false}, e.At, g, g.entry.requester, points)
	}
}

func (n *naive) refusalsToExceed(e *Exceed) (no []error) {
	if e.Pods < 0 {
		no = append(no, ErrMalformed)
	}
	g := n.findGrant(e.PlacementRef)
	if g == nil {
		return append(no, ErrUnknown)
	}
	if g.left {
		no = append(no, ErrOver)
	}
	more := e.Pods > n.exceeded[g].pods
	for name, amount := range e.Amounts {
		more = more || amount > n.exceeded[g].amounts[name]
	}
	if !more {
		no = append(no, ErrTaken)
	}
	return no
}

func (n *naive) noteExcess(e *Event) {
	g := n.findGrant(e.Change.(*Exceed).PlacementRef)
	known := n.exceeded[g]
	most := quantity.Amounts{}
	for _, from := range []quantity.Amounts{known.amounts, e.Change.(*Exceed).Amounts} {
		for name, amount := range from {
			most[name] = max(most[name], amount)
		}
	}
	n.exceeded[g] = naiveExcess{max(known.pods, e.Change.(*Exceed).Pods), most}
	n.noteBad(naiveParty{g.entry.requester, true}, e.At, g, g.provider, 2)
}

// reputationDiffers returns an error unless the State has added the same experiences to the
// reputation of a cluster, in both roles.
func (n *naive) reputationDiffers(s *State, id string) error {
	c := s.Cluster(id)
	for p, got := range map[naiveParty]*reputation.Reputation{{id, false}: c.Providing, {id, true}: c.Consuming} {
		if diff := cmp.Diff(n.reputations[p], got); diff != "" {
			return fmt.Errorf("its reputation, consuming %t (-want +got):\n%s", p.consumes, diff)
		}
	}
	return nil
}

// anyExceed usually reports a growing excess of a standing placement.
func (m *machine) anyExceed(c choose) Event {
	e := &Exceed{PlacementRef: m.anyPlacement(c), Pods: int32(c(20))}
	if c(2) == 0 {
		e.Amounts = m.anyAmounts(c)
	}
	for _, g := range m.naive.grants {
		if g.isStanding() && c(3) == 0 {
			e.PlacementRef, e.Pods = refTo(g.entry.name, g.number), m.naive.exceeded[g].pods+1
		}
	}
	if c(30) == 0 {
		e.Pods = -1
	}
	return Event{Change: e}
}
