package ledger

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// naiveWait is one stay in the queue. The naive book never forgets a stay, but sets left when the
// stay has finished.
type naiveWait struct {
	entry    *naiveEntry
	came     int // number of stays that began earlier
	until    time.Time
	hold     time.Duration
	left     bool
	provider string // where the victims are; "" if the entry preempts none
	victims  []PlacementRef
	grants   []*naiveGrant // those of the victims, because a reused name refers to other grants
	priority int32
	ends     time.Time
}

// waitOf returns the unfinished stay of an entry, nil if there is none.
func (n *naive) waitOf(entry *naiveEntry) *naiveWait {
	for _, w := range n.queue {
		if w.entry == entry && !w.left && entry.end == "" {
			return w
		}
	}
	return nil
}

// noticeFor returns the stay for which a placement has to make room, nil if there is none.
func (n *naive) noticeFor(g *naiveGrant) *naiveWait {
	for _, w := range n.queue {
		if n.waitOf(w.entry) == w && g.isStanding() && slices.Contains(w.grants, g) {
			return w
		}
	}
	return nil
}

// isHeld reports whether a provider still has to confirm that a placement is gone.
func (n *naive) isHeld(ref PlacementRef) bool {
	g := n.findGrant(ref)
	return g != nil && !g.left
}

func (n *naive) hasStanding(entry *naiveEntry) bool {
	return slices.ContainsFunc(n.grantsOf(entry), (*naiveGrant).isStanding)
}

func (n *naive) refusalsOfQueue(e *Event) (no []error) {
	refuse := func(when bool, reason error) {
		if when {
			no = append(no, reason)
		}
	}
	live := func(name string) *naiveEntry {
		entry := n.findEntry(name)
		refuse(entry == nil, ErrUnknown)
		refuse(entry != nil && entry.end != "", ErrOver)
		return entry
	}
	switch change := e.Change.(type) {
	case *Enqueue:
		if q := change.Request; q != nil {
			refuse(change.Name != "" || change.Until.IsZero() || q.Provider != "" || q.Amounts.IsZero(), ErrMalformed)
			refuse(n.findEntry(q.Name) != nil || n.keyUsed(q.Requester, q.Key), ErrTaken)
			return no
		}
		refuse(change.Name == "" || change.Until.IsZero(), ErrMalformed)
		if entry := live(change.Name); entry != nil {
			refuse(entry.unclaimed || n.hasStanding(entry) || n.waitOf(entry) != nil, ErrTaken)
		}
	case *Grant:
		refuse(change.Until.IsZero(), ErrMalformed)
		entry := live(change.Name)
		refuse(n.clusters[change.Provider] == nil, ErrUnknown)
		refuse(entry != nil && n.waitOf(entry) == nil, ErrTaken)
		if entry != nil && n.clusters[change.Provider] != nil {
			for resource, want := range entry.amounts {
				refuse(want > n.freeAmount(change.Provider, resource), ErrOverbooked)
			}
		}
	case *Preempt:
		no = append(no, n.refusalsToPreempt(change)...)
	}
	return no
}

func (n *naive) refusalsToPreempt(p *Preempt) (no []error) {
	if len(p.Victims) == 0 || p.Ends.IsZero() {
		no = append(no, ErrMalformed)
	}
	switch entry := n.findEntry(p.Name); {
	case entry == nil:
		no = append(no, ErrUnknown)
	case entry.end != "":
		no = append(no, ErrOver)
	case n.waitOf(entry) == nil || slices.ContainsFunc(n.waitOf(entry).victims, n.isHeld):
		no = append(no, ErrTaken)
	}
	for i, v := range p.Victims {
		if v.Priority >= p.Priority {
			no = append(no, ErrMalformed)
		}
		g := n.findGrant(v.PlacementRef)
		switch {
		case g == nil:
			no = append(no, ErrUnknown)
		case !g.isStanding():
			no = append(no, ErrOver)
		case n.noticeFor(g) != nil, n.calledBack(g.entry) != nil, len(n.standingGrants(g.entry)) > 1, g.provider != p.Provider, slices.Contains(p.Victims[i+1:], v):
			no = append(no, ErrTaken)
		}
		for _, other := range p.Victims[:i] {
			if other.PlacementRef == v.PlacementRef {
				no = append(no, ErrTaken)
			}
		}
	}
	return no
}

func (n *naive) recordQueue(e *Event) {
	switch change := e.Change.(type) {
	case *Enqueue:
		w := &naiveWait{came: len(n.queue), until: change.Until}
		if q := change.Request; q != nil {
			w.entry = &naiveEntry{
				name: q.Name, requester: q.Requester, key: q.Key, amounts: q.Amounts, until: q.Until, duration: q.Duration, wants: wantsOf(&q.Request),
			}
			w.hold = q.Duration
			n.entries = append(n.entries, w.entry)
		} else {
			w.entry = n.findEntry(change.Name)
			if w.entry.duration != 0 {
				w.hold = max(time.Second, w.entry.until.Sub(e.At))
			}
		}
		n.queue = append(n.queue, w)
	case *Grant:
		entry := n.findEntry(change.Name)
		n.waitOf(entry).left = true
		entry.until = change.Until
		number := n.newestNumber(entry) + 1
		n.addGrant(&naiveGrant{entry: entry, number: number, provider: change.Provider, assigned: e.At})
	case *Preempt:
		w := n.waitOf(n.findEntry(change.Name))
		w.provider, w.priority, w.ends = change.Provider, change.Priority, change.Ends
		w.victims, w.grants = nil, nil
		for _, v := range change.Victims {
			w.victims = append(w.victims, v.PlacementRef)
			w.grants = append(w.grants, n.findGrant(v.PlacementRef))
		}
	}
}

// queueDiffers returns an error if the book has another queue, or other notices, recalls or idle
// times.
func (n *naive) queueDiffers(s *State) error {
	for _, entry := range n.entries {
		r, w := s.Reservation(entry.name), n.waitOf(entry)
		switch {
		case (r.Waiting != nil) != (w != nil):
			return fmt.Errorf("reservation %s waits: %+v, want %+v", entry.name, r.Waiting, w)
		case w == nil:
			continue
		case !r.Waiting.Until.Equal(w.until) || r.Waiting.Left != w.hold || r.Phase() != Queued:
			return fmt.Errorf("reservation %s is %s and waits as %+v, want %+v", entry.name, r.Phase(), r.Waiting, w)
		}
		var provider string
		if p := r.Waiting.Preemption; p != nil {
			provider = p.Provider
			if !slices.Equal(p.Victims, w.victims) || !p.Ends.Equal(w.ends) {
				return fmt.Errorf("reservation %s preempts %+v, want %+v", entry.name, p, w)
			}
		}
		if provider != w.provider {
			return fmt.Errorf("reservation %s preempts on %q, want %q", entry.name, provider, w.provider)
		}
		for _, other := range n.entries {
			if v := n.waitOf(other); v != nil && (v.came < w.came) != (s.Reservation(other.name).Waiting.Position < r.Waiting.Position) {
				return fmt.Errorf("reservation %s waits at %d, %s at %d: in another order than they came",
					entry.name, r.Waiting.Position, other.name, s.Reservation(other.name).Waiting.Position)
			}
		}
	}
	return errors.Join(n.noticesDiffer(s), n.recallsDiffer(s), n.idleDiffers(s))
}

func (n *naive) noticesDiffer(s *State) error {
	told := map[string]bool{}
	for _, g := range n.grants {
		w := n.noticeFor(g)
		if w == nil {
			continue
		}
		told[g.entry.name] = true
		want := Notice{Placement: g.number, By: w.entry.name, Priority: w.priority, Ends: w.ends}
		if got := s.Reservation(g.entry.name).Notice; got == nil || got.By != want.By || got.Placement != want.Placement ||
			got.Priority != want.Priority || !got.Ends.Equal(want.Ends) {
			return fmt.Errorf("placement %s is told %+v, want %+v", g.placementName(), got, want)
		}
	}
	for _, entry := range n.entries {
		if got := s.Reservation(entry.name).Notice; got != nil && !told[entry.name] {
			return fmt.Errorf("reservation %s is told %+v, want nothing", entry.name, got)
		}
	}
	return nil
}

// anyEnqueue queues a new request or an earlier one, which usually has lost its placement.
func (m *machine) anyEnqueue(c choose) Event {
	q := &Enqueue{Until: m.now.Add(time.Duration(c(99)+1) * time.Minute)}
	if c(2) == 0 {
		q.Request = m.anyReserve(c).Change.(*Reserve)
		q.Request.Provider, q.Request.Until = "", time.Time{}
		q.Request.Duration = time.Duration(c(3)) * time.Hour
	} else {
		q.Name = m.anyName(c)
		for _, g := range m.naive.grants {
			if g.withdrawn && g.entry.end == "" && c(3) > 0 {
				q.Name = g.entry.name
			}
		}
	}
	switch c(20) {
	case 0:
		q.Until = time.Time{}
	case 1:
		q.Name = m.anyName(c)
	}
	return Event{Change: q}
}

// anyWaiting usually returns the name of a waiting reservation.
func (m *machine) anyWaiting(c choose) string {
	var names []string
	for _, entry := range m.naive.entries {
		if m.naive.waitOf(entry) != nil {
			names = append(names, entry.name)
		}
	}
	if len(names) == 0 || c(8) == 0 {
		return m.anyName(c)
	}
	return names[c(len(names))]
}

func (m *machine) anyGrant(c choose) Event {
	g := &Grant{Name: m.anyWaiting(c), Provider: oneOf(c, paris, berlin, oslo, "nowhere"), Until: m.now.Add(time.Hour)}
	if c(20) == 0 {
		g.Until = time.Time{}
	}
	return Event{Change: g}
}

// anyPreempt names placements of one provider, sometimes twice or of other providers.
func (m *machine) anyPreempt(c choose) Event {
	p := &Preempt{Name: m.anyWaiting(c), Provider: oneOf(c, paris, berlin, oslo), Priority: 10, Ends: m.now.Add(time.Minute)}
	for _, g := range m.naive.grants {
		if g.provider == p.Provider && g.isStanding() && c(3) > 0 {
			p.Victims = append(p.Victims, Victim{refTo(g.entry.name, g.number), int32(c(10))})
		}
	}
	if c(6) == 0 {
		p.Victims = append(p.Victims, Victim{m.anyPlacement(c), int32(c(12))})
	}
	if c(20) == 0 {
		p.Ends = time.Time{}
	}
	return Event{Change: p}
}
