package ledger

import (
	"fmt"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// naiveParty is a cluster in one of its roles.
type naiveParty struct {
	id       string
	consumes bool
}

// naiveDealing is a counterpart's experience with a party.
type naiveDealing struct {
	at         time.Time
	peer, name string
	what       string // try, good, bad or end
	points     int
}

type naiveExcess struct {
	pods    int32
	amounts quantity.Amounts
}

// naiveSpell is a pause: its end, its level, and the name of the placement on trial, whose outcome
// decides whether the pause ends.
type naiveSpell struct {
	until time.Time
	level int
	trial string
}

type naiveScore struct {
	points  int
	served  bool
	changed time.Time
	naiveSpell
}

func (n *naive) noteDealing(p naiveParty, d naiveDealing) {
	if n.clusters[p.id] != nil {
		n.dealings[p] = append(n.dealings[p], d)
	}
}

// blameProvider notes the points that the provider of a withdrawn placement gets for the reason of
// the withdrawal; none for most reasons.
func (n *naive) blameProvider(g *naiveGrant, e *Event) {
	points := 0
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
		n.noteDealing(naiveParty{g.provider, false}, naiveDealing{e.At, g.entry.requester, g.placementName(), "bad", points})
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
	n.noteDealing(naiveParty{g.entry.requester, true}, naiveDealing{e.At, g.provider, g.placementName(), "bad", 2})
}

// naiveBook is the result of all dealings of a party, from the first one on.
type naiveBook struct {
	all    naiveSpell
	scores map[string]naiveScore
}

func (b *naiveBook) sumPoints(at time.Time) int {
	sum := 0
	for _, s := range b.scores {
		switch {
		case at.Sub(s.changed) >= 24*time.Hour:
		case s.points > 0:
			sum += min(s.points, 4)
		case s.served:
			sum -= 2
		}
	}
	return max(sum, 0)
}

// levelsLeft returns the level of a pause at a time. The level falls by one every two hours after
// the end of the pause.
func (p naiveSpell) levelsLeft(at time.Time) int {
	level := p.level
	for t := p.until.Add(2 * time.Hour); level > 0 && !t.After(at); t = t.Add(2 * time.Hour) {
		level--
	}
	return level
}

func (p naiveSpell) nextSpell(at time.Time) naiveSpell {
	if at.Before(p.until) {
		return p
	}
	minutes := []int{1, 2, 4, 8, 16, 32, 60}
	level := min(p.levelsLeft(at)+1, 7)
	return naiveSpell{until: at.Add(time.Duration(minutes[level-1]) * time.Minute), level: level}
}

func (p naiveSpell) isOver(at time.Time) bool {
	return p.trial == "" && !at.Before(p.until) && p.levelsLeft(at) == 0
}

func (b *naiveBook) addDealing(d naiveDealing) {
	if d.what != "bad" && len(b.scores) == 0 && b.all.isOver(d.at) {
		*b = naiveBook{}
		return
	}
	if b.scores == nil {
		b.scores = map[string]naiveScore{}
	}
	s, known := b.scores[d.peer]
	if d.at.Sub(s.changed) >= 24*time.Hour {
		s.points = 0
	}
	before, tried := b.sumPoints(d.at), b.all.trial == d.name
	switch d.what {
	case "try":
		if b.all.trial == "" && before >= 6 && !d.at.Before(b.all.until) {
			b.all.trial = d.name
		}
		if known && s.trial == "" && s.points >= 6 && !d.at.Before(s.until) {
			s.trial = d.name
			b.scores[d.peer] = s
		}
		return
	case "bad":
		s.points, s.changed, s.served = min(s.points+d.points, 6), d.at, false
		if s.points == 6 {
			s.naiveSpell = s.nextSpell(d.at)
		}
	case "good":
		s.points, s.changed = max(s.points-1, 0), d.at
		s.served = s.points == 0
	case "end":
		if !known && !tried {
			return
		}
		if tried {
			s.naiveSpell, s.changed = s.nextSpell(d.at), d.at
		}
	}
	if d.what != "bad" {
		if s.trial == d.name {
			s.trial = ""
		}
		if tried {
			b.all.trial = ""
		}
	}
	b.scores[d.peer] = s
	b.dropOutdated(d.at)
	if after := b.sumPoints(d.at); d.what == "bad" && after >= 6 && (after > before || tried) {
		b.all = b.all.nextSpell(d.at)
	}
}

func (b *naiveBook) dropOutdated(at time.Time) {
	bad := false
	for _, s := range b.scores {
		bad = bad || s.points > 0 && at.Sub(s.changed) < 24*time.Hour
	}
	for peer, s := range b.scores {
		if at.Sub(s.changed) >= 24*time.Hour {
			s.points, s.served = 0, false
		}
		s.served = s.served && bad
		b.scores[peer] = s
		if s.points == 0 && !s.served && s.isOver(at) {
			delete(b.scores, peer)
		}
	}
}

func (p naiveSpell) describe(points int, now time.Time) string {
	switch {
	case now.Before(p.until):
		return fmt.Sprint("until ", p.until.Unix())
	case points >= 6 && p.trial != "":
		return "on trial " + p.trial
	default:
		return "open"
	}
}

// conductDiffers recounts all dealings of a cluster. It returns an error unless the State pauses
// the same counterparts for the same time.
func (n *naive) conductDiffers(s *State, id string) error {
	for _, consumes := range []bool{false, true} {
		party := naiveParty{id, consumes}
		all := n.dealings[party]
		if len(all) == 0 {
			if c := s.Cluster(id); c.Providing != nil && !consumes || c.Consuming != nil && consumes {
				return fmt.Errorf("%+v and %+v are remembered of nothing, consuming %t", c.Providing, c.Consuming, consumes)
			}
			continue
		}
		var b naiveBook
		for _, d := range all {
			b.addDealing(d)
		}
		c, now := s.Cluster(id).Providing, all[len(all)-1].at
		if consumes {
			c = s.Cluster(id).Consuming
		}
		for _, later := range []time.Duration{0, 90 * time.Second, 45 * time.Minute, 25 * time.Hour} {
			if err := b.compareTo(c, now.Add(later)); err != nil {
				return fmt.Errorf("%s later, consuming %t: %w", later, consumes, err)
			}
		}
	}
	return nil
}

func (b *naiveBook) compareTo(c *Conduct, now time.Time) error {
	shown := func(s *Suspension) string {
		switch {
		case s == nil:
			return "open"
		case s.Trial != "":
			return "on trial " + s.Trial
		default:
			return fmt.Sprint("until ", s.Until.Unix())
		}
	}
	if got, want := shown(c.Suspended(now)), b.all.describe(b.sumPoints(now), now); got != want {
		return fmt.Errorf("it is suspended: %s, want %s (%d points, %+v)", got, want, b.sumPoints(now), b.scores)
	}
	var got, want []string
	c.SuspendedFor(now, func(peer string, s *Suspension) { got = append(got, peer+" "+shown(s)) })
	for peer, s := range b.scores {
		points := s.points
		if now.Sub(s.changed) >= 24*time.Hour {
			points = 0
		}
		if out := s.describe(points, now); out != "open" {
			want = append(want, peer+" "+out)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("it is suspended for %v, want %v", got, want)
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
