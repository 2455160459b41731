package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/mutant"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Apply makes the event, which stands at position in the log. On an error, which
// is that of Check, nothing is changed.
//
//nolint:gocyclo // a case for every kind of event
func (s *State) Apply(position uint64, e *Event) error {
	if err := s.Check(e); err != nil {
		return err
	}
	s.position = position
	switch {
	case e.Offer != nil:
		s.applyOffer(e.At, e.Offer)
	case e.Reserve != nil:
		s.applyReserve(e.At, e.Reserve)
	case e.Move != nil:
		s.applyMove(e.At, e.Move)
	case e.Acknowledge != nil:
		s.applyAcknowledge(e.At, e.Acknowledge)
	case e.NodeReady != nil:
		s.applyNodeReady(e.At, e.NodeReady)
	case e.Withdraw != nil:
		s.applyWithdraw(e.At, e.Withdraw)
	case e.ProviderGone != nil:
		r, p := s.placement(*e.ProviderGone)
		s.keptWithin(e.At, r, p)
		s.free(r, p)
	case e.ConsumerGone != nil:
		s.touch(*e.ConsumerGone, func(p *Placement) { p.ConsumerGone = true })
	case e.End != nil:
		s.applyEnd(e.At, e.End)
	case e.Renew != nil:
		r := s.reservations[e.Renew.Name]
		r.Until, r.Changed = e.Renew.Until, position
	case e.Change != nil:
		s.applyChange(e.Change)
	case e.Settle != nil:
		s.applySettle(e.Settle)
	case e.Reach != nil:
		s.applyReach(e.Reach)
	case e.Heal != nil:
		s.applyMove(e.At, &Move{Name: e.Heal.Name, Provider: e.Heal.Provider, Explanation: e.Heal.Explanation})
	case e.Recall != nil:
		s.applyRecall(e.Recall)
	case e.Close != nil:
		s.applyClose(e.Close)
	case e.Exceed != nil:
		s.applyExceed(e.At, e.Exceed)
	case e.Usage != nil:
		s.applyUsage(e.Usage)
	case e.Ceilings != nil:
		s.applyCeilings(e.Ceilings)
	case e.Shut != nil:
		s.applyShut(e.At, e.Shut)
	case e.Forget != nil:
		s.applyForget(e.Forget)
	case e.Enqueue != nil, e.Grant != nil, e.Preempt != nil:
		s.applyQueue(e)
	case e.Keep != nil, e.Take != nil, e.LetGo != nil:
		s.applyHolds(e)
	default:
		s.applyRestored(e)
	}
	return nil
}

func (s *State) applyOffer(at time.Time, o *Offer) {
	c := s.clusters[o.ClusterID]
	if c == nil {
		c = &Cluster{Offer: Offer{ClusterID: o.ClusterID}, holds: map[string]quantity.Amounts{}, quoted: map[string]*Quote{}}
		s.clusters[o.ClusterID] = c
	}
	id := c.ClusterID // the one that reservations share
	known := c.Agent
	if o.Agent && !known {
		c.AgentSince = at
	}
	earlier, used := c.Source, c.Used
	c.Offer, c.OfferedAt = *o, at
	if o.UsedApart {
		c.Used = used
	}
	c.ClusterID = id
	s.index(c, earlier)
	c.stretch = s.stretchOf(o)
	c.Agent = known || o.Agent
	c.recount()
	if c.Agent && !known {
		s.touchHolders(c)
	}
}

func (s *State) applyShut(at time.Time, v *Shut) {
	if mutant.Active != mutant.ForgetTombstone {
		s.shut[keyRef{v.Requester, v.Key}] = at
	}
}

func (s *State) applyReserve(at time.Time, v *Reserve) {
	r := &Reservation{Reserve: *v, CreatedAt: instantOf(at)}
	s.enter(r)
	s.place(at, r, v.Provider)
}

// enter has a new reservation be found by its name and by its key.
func (s *State) enter(r *Reservation) {
	s.share(&r.Reserve)
	s.reservations[r.Name] = r
	if mutant.Active != mutant.ForgetKey {
		s.keys[keyRef{r.Requester, r.Key}] = r
	}
}

func (s *State) applyMove(at time.Time, m *Move) {
	r := s.reservations[m.Name]
	r.Provider, r.Explanation = m.Provider, m.Explanation
	s.place(at, r, m.Provider)
}

func (s *State) place(at time.Time, r *Reservation, provider string) {
	number := r.last() + 1
	r.Placements = append(r.Placements, Placement{Number: number, Provider: s.clusters[provider].ClusterID, AssignedAt: instantOf(at)})
	r.Changed = s.position
	name := PlacementName(r.Name, number)
	s.clusters[provider].hold(name, r.Amounts)
	s.clusters[provider].Record.Granted++
	s.providing(at, provider, false, func(c *Conduct) { c.try(at, r.Requester, name) })
}

func (s *State) touch(ref PlacementRef, change func(*Placement)) {
	r, p := s.placement(ref)
	change(p)
	r.Changed = s.position
}

// applyAcknowledge counts as a success where no agent can report that the node is Ready.
func (s *State) applyAcknowledge(at time.Time, ref *PlacementRef) {
	r, p := s.placement(*ref)
	if p.AcknowledgedAt.IsZero() && !s.HasAgent(r.Requester) {
		s.served(at, r, p)
	}
	s.touch(*ref, func(p *Placement) { p.acknowledge(at) })
}

// acknowledge keeps the first instant: a provider that repeats itself must not put
// the deadline of the node off.
func (p *Placement) acknowledge(at time.Time) {
	if p.AcknowledgedAt.IsZero() {
		p.AcknowledgedAt = instantOf(at)
	}
}

func (s *State) applyWithdraw(at time.Time, w *Withdraw) {
	r, p := s.placement(w.PlacementRef)
	s.recordLeft(at, r, p, w)
	p.Withdrawn, p.Ready = w.Reason, false
	if p.Number < r.last() || r.History != nil {
		r.remember(func(h *History) { h.Left = p.Number })
	}
	r.Provider, r.Changed = r.Current().Provider, s.position
	s.giveUp(at, r, p)
}

func (s *State) applyEnd(at time.Time, e *End) {
	r := s.reservations[e.Name]
	s.leaveQueue(r)
	r.EndReason = e.Reason
	r.remember(func(h *History) { h.EndMessage, h.EndedAt = e.Message, at })
	if e.Explanation != "" {
		r.Explanation = e.Explanation
	}
	r.Changed = s.position
	for i := range r.Placements {
		s.giveUp(at, r, &r.Placements[i])
	}
}

// giveUp settles the sides of a placement that no agent speaks for: nobody made
// anything there, and nobody would ever confirm that it is gone. It is recorded
// now because an agent that enrols later must not bring an old placement back.
func (s *State) giveUp(at time.Time, r *Reservation, p *Placement) {
	s.providing(at, p.Provider, false, func(c *Conduct) { c.settle(at, r.Requester, PlacementName(r.Name, p.Number)) })
	if r.Notice != nil && r.Notice.Placement == p.Number {
		r.Notice = nil
	}
	if r.isCalledBack(p) {
		r.remember(func(h *History) { h.CallBack = nil })
	}
	r.forsake(p)
	if !s.HasAgent(p.Provider) || mutant.Active == mutant.EarlyResale {
		s.free(r, p)
	}
	if !s.HasAgent(r.Requester) || r.Unclaimed {
		p.ConsumerGone = true
	}
	if last := r.Current(); r.Stands(last) && last.Amounts != nil && r.Beside(last) == nil {
		r.agree(last, last.Amounts) // what the other one had agreed to is of no use
	}
}

func (s *State) free(r *Reservation, p *Placement) {
	r.Changed = s.position
	if p.ProviderGone {
		if c := s.clusters[p.Provider]; mutant.Active == mutant.ReleaseTwice {
			c.claimed = c.claimed.Sub(r.Amounts)
		}
		return
	}
	p.ProviderGone = true
	s.clusters[p.Provider].drop(PlacementName(r.Name, p.Number))
}

func (s *State) applyForget(f *Forget) {
	for _, name := range f.Names {
		r := s.reservations[name]
		if r == nil {
			continue // named twice
		}
		delete(s.keys, keyRef{r.Requester, r.Key})
		delete(s.reservations, name)
	}
	for _, k := range f.Keys {
		delete(s.shut, keyRef{k.Requester, k.Key})
	}
}

// ShutKeys calls f for every shut key with the time since when it is, in no order.
func (s *State) ShutKeys(f func(Shut, time.Time)) {
	for ref, at := range s.shut {
		f(Shut{Requester: ref.requester, Key: ref.key}, at)
	}
}

// ShutBefore returns the keys that were shut before an instant, sorted.
func (s *State) ShutBefore(t time.Time) []Shut {
	var out []Shut
	for ref, at := range s.shut {
		if at.Before(t) {
			out = append(out, Shut{Requester: ref.requester, Key: ref.key})
		}
	}
	slices.SortFunc(out, Shut.compare)
	return out
}

func (k Shut) compare(other Shut) int {
	return cmp.Or(cmp.Compare(k.Requester, other.Requester), cmp.Compare(k.Key, other.Key))
}
