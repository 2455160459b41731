package decision

// Standing is why a candidate takes no new reservations although it may have room. The reasons are
// shown to requesters.
type Standing struct {
	// Cordoned says that an administrator drains or cordons the candidate, and why; "" if none
	// does.
	Cordoned string
	// Paused has the pause for all requesters, PausedFor those for single ones, by their IDs.
	Paused    Pause
	PausedFor map[string]Pause
}

// Pause is why a candidate is paused. The zero Pause is none.
type Pause struct {
	Why string
	// LastResort is true if the candidate may serve if no other can.
	LastResort bool
}

// suspensionReason returns why the candidate does not serve the requester: a reason and a text for
// display. Both are "" if the Standing does not prevent it.
func (s *Standing) suspensionReason(requester string, lastResort bool) (Reason, string) {
	if s.Cordoned != "" {
		return Cordoned, s.Cordoned
	}
	for _, p := range []Pause{s.Paused, s.PausedFor[requester]} {
		if p.Why != "" && !(p.LastResort && lastResort) {
			return Paused, p.Why
		}
	}
	return "", ""
}

// SetStanding replaces the Standing of a candidate, nil for none. It reports whether the candidate
// is in the market.
func (m *Market) SetStanding(id string, s *Standing) bool {
	i, ok := m.row[id]
	if !ok {
		return false
	}
	if s != nil && s.Cordoned == "" && s.Paused.Why == "" && len(s.PausedFor) == 0 {
		s = nil
	}
	m.standings[i] = s
	m.setMark(i, suspended, s != nil)
	return true
}

// Excess holds the reasons why candidates do not serve a requester that used more than it was
// granted. The reasons are shown to the requester.
type Excess struct {
	// All is the reason why no candidate serves the requester; "" if some may.
	All string
	// By maps the ID of a candidate to the reason why it does not serve the requester.
	By map[string]string
}

// SetExcess replaces the Excess of a requester, nil for none.
func (m *Market) SetExcess(requester string, x *Excess) {
	if x == nil || x.All == "" && len(x.By) == 0 {
		delete(m.exceeded, requester)
		return
	}
	m.exceeded[requester] = x
}

// describeSuspension returns why the candidate in row i takes no new reservations of the
// requester, because of an Excess or a Standing: a reason and a text for display. Both are "" if
// it takes such reservations.
func (c *contest) describeSuspension(i int) (Reason, string) {
	if x := c.exceeded; x != nil && x.All != "" {
		return ExceededGrant, x.All
	} else if x != nil && x.By[c.market.ids[i]] != "" {
		return ExceededGrant, x.By[c.market.ids[i]]
	}
	if s := c.market.standings[i]; s != nil {
		return s.suspensionReason(c.request.Requester, c.lastResort)
	}
	return "", ""
}
