package ledger

// standingGrants returns the standing grants of an entry, at most two. If there are two, the
// provider of the older one is or was lost.
func (n *naive) standingGrants(entry *naiveEntry) []*naiveGrant {
	var out []*naiveGrant
	for _, g := range n.grantsOf(entry) {
		if g.isStanding() {
			out = append(out, g)
		}
	}
	return out
}

func (n *naive) refusalsToHeal(h *Heal) (no []error) {
	refuse := func(when bool, reason error) {
		if when {
			no = append(no, reason)
		}
	}
	entry := n.findEntry(h.Name)
	if entry == nil {
		return []error{ErrUnknown}
	}
	refuse(entry.end != "", ErrOver)
	standing := n.standingGrants(entry)
	refuse(len(standing) != 1 || n.waitOf(entry) != nil || entry.unclaimed || entry.wants.target != "", ErrTaken)
	for _, g := range standing {
		refuse(n.hasAgent(entry.requester) && !g.readyOnce, ErrTaken)
		refuse(g.provider == h.Provider || g.acked.IsZero() || n.noticeFor(g) != nil, ErrTaken)
		unready := g.readyOnce && !g.ready && !g.connecting.IsZero()
		refuse(g.recalled.IsZero() && (n.clusters[g.provider].lost.IsZero() && !unready || entry.wants.patient), ErrTaken)
	}
	if n.clusters[h.Provider] == nil {
		return append(no, ErrUnknown)
	}
	for resource, want := range entry.amounts {
		refuse(want > n.freeAmount(h.Provider, resource), ErrOverbooked)
	}
	return no
}

// anyHeal usually returns an allowed Heal. If none is allowed, it returns the loss of a
// provider that would allow one.
func (m *machine) anyHeal(c choose) Event {
	e := Event{Change: &Heal{Name: m.anyName(c), Provider: oneOf(c, paris, berlin, oslo, "nowhere")}}
	if c(4) == 0 {
		return e
	}
	for _, g := range m.naive.grants {
		if lost := !m.naive.clusters[g.provider].lost.IsZero(); g.isStanding() && !g.acked.IsZero() && !lost && c(2) == 0 {
			e = Event{Change: &Silence{ClusterID: g.provider, Since: m.now}}
		}
	}
	for _, entry := range m.naive.entries {
		for _, provider := range []string{paris, berlin, oslo} {
			if could := (&Heal{Name: entry.name, Provider: provider}); len(m.naive.refusalsToHeal(could)) == 0 && c(3) > 0 {
				e = Event{Change: could}
			}
		}
	}
	return e
}
