// Package idle tells requesters about reservations that nobody uses, and releases them.
package idle

import (
	"cmp"
	"maps"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const (
	// LongestNotice is how long before the release the requester is told at the earliest.
	LongestNotice = time.Hour
	// confirmWithin is how long after the announced release the requester's agent may confirm that no
	// pod is on the virtual node. If it does not, the reservation stays and its idle time begins anew.
	confirmWithin = 2 * time.Minute
	// closedFor is how long after the announced release the broker believes a confirmation. The agent
	// keeps the node closed for a minute, and a confirmation that was under way for longer says nothing
	// about pods that came after that.
	closedFor = 45 * time.Second
	// Due is the prefix of the names of the deadlines at which CarryOutDue runs for a reservation.
	Due = "idle/"
)

// Session is what idle times need of the broker's session.
type Session interface {
	term.Term
	// IdleBound is the administrator's bound on the idle time of any reservation, nil for none. It
	// returns false if the broker has not read its configuration.
	IdleBound() (bound *ledger.IdlePolicy, configured bool)
	// Timeouts says how long an agent may be silent.
	Timeouts() *term.Timeouts
}

// Idles measures how long reservations have been idle. A reservation is idle while
// its requester reports that no pod is on the virtual node and its provider reports that no pod uses the placement. Both
// report with their advertisements.
//
// The clocks are kept in memory only. So after a takeover the idle time begins anew: a release may
// come later than without the takeover, but never earlier. The journal has a record when a requester
// is told, when that is taken back, and when a reservation is released.
type Idles struct {
	s Session
	// clocks has a clock for each reservation that has a policy and is in use on one placement.
	// byCluster has the same clocks for each requester and provider.
	clocks    map[string]*idleClock
	byCluster map[string]map[string]*idleClock
}

// idleClock measures how long a reservation has been idle.
type idleClock struct {
	requester, provider string
	placement           int32
	// vacant is the time since which no pod has been on the virtual node, and unused the time since which the provider
	// has reported no usage. Each is zero if the last report says otherwise, or if there is no report.
	vacant, unused time.Time
	// podsSeen is when the requester last reported, to this term, that a pod is on the node; zero if it
	// has not. vacant is never earlier, whatever the requester says about the past: otherwise it could
	// make the broker write a record with every second advertisement.
	podsSeen time.Time
	// used is true once, in this term, a report has said that the reservation is used, or an agent has
	// fallen silent. While it is false, an idle time that an earlier term recorded may still be right.
	used bool
	// told has the times that were in force when this term told the requester; zero if it has not.
	told idleTimes
}

// idleSince returns when the reservation became idle; zero if it is used, or if that is unknown.
func (c *idleClock) idleSince() time.Time {
	if c.vacant.IsZero() || c.unused.IsZero() {
		return time.Time{}
	}
	return term.Later(c.vacant, c.unused)
}

// idleTimes are how long a reservation must be idle before its requester is told, and before it is
// released. A zero release means never.
type idleTimes struct{ tell, release time.Duration }

// noticeTime is how long before a release the requester is told.
func (t idleTimes) noticeTime() time.Duration { return min(t.release/2, LongestNotice) }

// New returns Idles without clocks.
func New(s Session) *Idles {
	return &Idles{s: s, clocks: map[string]*idleClock{}, byCluster: map[string]map[string]*idleClock{}}
}

// timesOf returns the times of a reservation: those of its own policy, within the bound that the
// administrator sets for all. Both times are zero if there is neither a policy nor a bound.
func timesOf(own, bound *ledger.IdlePolicy) (t idleTimes) {
	earlier := func(a, b time.Duration) time.Duration { return min(cmp.Or(a, b), b) }
	for _, p := range []*ledger.IdlePolicy{own, bound} {
		switch {
		case p == nil:
		case p.Release:
			t.release = earlier(t.release, p.After)
		default:
			t.tell = earlier(t.tell, p.After)
		}
	}
	if t.release != 0 {
		t.tell = earlier(t.tell, t.release-t.noticeTime())
	}
	return t
}

// timesFor returns the times of a reservation under the present configuration.
func (x *Idles) timesFor(r *ledger.Reservation) idleTimes {
	bound, _ := x.s.IdleBound()
	return timesOf(r.Idle, bound)
}

// placementInUse returns the placement on which a reservation could be idle: the only one that stands, whose node is
// Ready, and that need not make room. It returns nil if there is none, or if the agents that would have to report do
// not exist.
func (x *Idles) placementInUse(r *ledger.Reservation) *ledger.Placement {
	p := r.Current()
	switch {
	case !r.Stands(p), !p.Ready, p.AcknowledgedAt.IsZero(), r.Waiting != nil, r.Unclaimed, r.Pending != nil:
		return nil
	case r.Beside(p) != nil, r.Notice != nil, r.CalledBack() != nil:
		return nil
	case !x.s.Book().HasAgent(p.Provider), !x.s.Book().HasAgent(r.Requester):
		return nil
	}
	return p
}

// ReservationChanged begins, keeps or ends the clock of a reservation.
func (x *Idles) ReservationChanged(r *ledger.Reservation) {
	var p *ledger.Placement
	if bound, _ := x.s.IdleBound(); r.Idle != nil || bound != nil {
		p = x.placementInUse(r)
	}
	c := x.clocks[r.Name]
	if c != nil && (p == nil || p.Number != c.placement) {
		x.dropClock(r.Name)
		c = nil
	}
	if c == nil && p != nil {
		c = &idleClock{requester: r.Requester, provider: p.Provider, placement: p.Number}
		x.clocks[r.Name] = c
		for _, id := range []string{r.Requester, p.Provider} {
			if x.byCluster[id] == nil {
				x.byCluster[id] = map[string]*idleClock{}
			}
			x.byCluster[id][r.Name] = c
		}
	}
	if c != nil || r.IdleNow() != nil {
		x.scheduleNextEvent(r)
	}
}

func (x *Idles) dropClock(name string) {
	c := x.clocks[name]
	delete(x.clocks, name)
	for _, id := range []string{c.requester, c.provider} {
		if delete(x.byCluster[id], name); len(x.byCluster[id]) == 0 {
			delete(x.byCluster, id)
		}
	}
	x.s.SetDeadline(Due+name, time.Time{})
}

// WantsVacancies reports whether a cluster shall list its placements without pods.
func (x *Idles) WantsVacancies(clusterID string) bool {
	for _, c := range x.byCluster[clusterID] {
		if c.requester == clusterID {
			return true
		}
	}
	return false
}

// NoteReports updates the clocks from an advertisement: used is what the cluster's placements use as a
// provider, and empty lists its virtual nodes without pods. A provider that does not list a placement
// says nothing about its usage, so the placement then counts as used.
func (x *Idles) NoteReports(clusterID string, used map[string]quantity.Amounts, empty []v1.Vacancy) {
	mine := x.byCluster[clusterID]
	if len(mine) == 0 {
		return
	}
	now, vacant := x.s.Now(), make(map[string]float64, len(empty))
	for _, v := range empty {
		vacant[brokerv1alpha1.PlacementName(v.Reservation, v.Placement)] = v.Seconds
	}
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		c := mine[name]
		placement := brokerv1alpha1.PlacementName(name, c.placement)
		if c.provider == clusterID {
			amounts, listed := used[placement]
			c.noteUnused(listed && amounts.IsZero(), now)
		}
		if c.requester == clusterID {
			seconds, is := vacant[placement]
			c.noteVacant(is, seconds, now)
		}
		x.scheduleNextEvent(x.s.Book().Reservation(name))
	}
}

func (c *idleClock) noteUnused(is bool, now time.Time) {
	switch {
	case !is:
		c.unused, c.used = time.Time{}, true
	case c.unused.IsZero():
		c.unused = now
	}
}

// noteVacant stores a report of the requester: whether the virtual node is vacant, and for how many seconds no pod has
// been on it. It never moves the beginning of a vacancy to an earlier time.
func (c *idleClock) noteVacant(is bool, seconds float64, now time.Time) {
	if !is {
		c.vacant, c.podsSeen, c.used = time.Time{}, now, true
		return
	}
	since := now.Add(-time.Duration(min(max(seconds, 0), requests.LongestDuration.Seconds()) * float64(time.Second)))
	c.vacant = term.Later(term.Later(c.vacant, c.podsSeen), since)
}

// NoteSilence stops the clocks of all reservations that a silent cluster requested or provides.
func (x *Idles) NoteSilence(clusterID string) {
	for name, c := range x.byCluster[clusterID] {
		if c.requester == clusterID {
			c.vacant = time.Time{}
		}
		if c.provider == clusterID {
			c.unused = time.Time{}
		}
		c.used = true
		x.scheduleNextEvent(x.s.Book().Reservation(name))
	}
}

func (x *Idles) scheduleNextEvent(r *ledger.Reservation) {
	_, at := x.nextEvent(r)
	x.s.SetDeadline(Due+r.Name, at)
}

// nextEvent returns the next event about the idle time of a reservation if nothing else happens, and
// when it is due; the zero time if none will be due.
func (x *Idles) nextEvent(r *ledger.Reservation) (ledger.Idle, time.Time) {
	known, c, now := r.IdleNow(), x.clocks[r.Name], x.s.Now()
	if c == nil || c.idleSince().IsZero() {
		if _, configured := x.s.IdleBound(); known == nil || !configured {
			return ledger.Idle{}, time.Time{}
		}
		withdraw := ledger.Idle{PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: known.Placement}}
		if c != nil && !c.used {
			// A broker that has just taken over waits for the agents' reports.
			return withdraw, x.s.Began().Add(x.s.Timeouts().Silence)
		}
		return withdraw, now
	}
	times, ref := x.timesFor(r), ledger.PlacementRef{Name: r.Name, Placement: c.placement}
	tellAt := c.idleSince().Add(times.tell)
	if known != nil && c.told == times {
		if known.Ends.IsZero() {
			return ledger.Idle{}, time.Time{}
		}
		return ledger.Idle{PlacementRef: ref}, known.Ends.Add(confirmWithin)
	}
	if known != nil && c.told != (idleTimes{}) && tellAt.After(now) {
		return ledger.Idle{PlacementRef: ref}, now // the times have become longer
	}
	if known != nil {
		tellAt = now // an earlier term told the requester, or the times have changed
	}
	tell := ledger.Idle{PlacementRef: ref, Since: c.idleSince()}
	if times.release != 0 {
		tell.Ends = term.Later(c.idleSince().Add(times.release), term.Later(tellAt, now).Add(times.noticeTime()))
	}
	return tell, tellAt
}

// CarryOutDue records the next event about the idle time of a reservation if it is due.
func (x *Idles) CarryOutDue(name string) {
	r := x.s.Book().Reservation(name)
	if r == nil {
		return
	}
	change, at := x.nextEvent(r)
	if at.IsZero() || at.After(x.s.Now()) {
		x.s.SetDeadline(Due+name, at)
		return
	}
	if err := x.s.Record(ledger.Event{Change: &change}); err != nil {
		x.s.Log().Error(err, "recording that a reservation is idle failed, retrying", "reservation", name)
		x.s.SetDeadline(Due+name, x.s.Now().Add(term.RetryDelay))
		return
	}
	x.s.Log().Info("idle time of a reservation changed", "reservation", name, "requester", r.Requester, "since", change.Since, "releaseAt", change.Ends)
	c := x.clocks[name]
	switch {
	case c == nil:
	case change.Since.IsZero():
		if c.told = (idleTimes{}); !c.idleSince().IsZero() { // the release was not confirmed
			c.vacant = x.s.Now()
		}
	default:
		c.told = x.timesFor(r)
	}
	x.scheduleNextEvent(r)
}

// ReleaseVacant releases a reservation whose requester reports that no pod is on the virtual node and
// that none can come, if the announced time has come and the reservation is still idle. Otherwise it
// returns an error that says that the node stays, or when to report again.
func (x *Idles) ReleaseVacant(r *ledger.Reservation, p *ledger.Placement) error {
	if r.EndReason != "" {
		return nil
	}
	known, c := r.IdleNow(), x.clocks[r.Name]
	if known == nil || known.Placement != p.Number || known.Ends.IsZero() || c == nil || c.idleSince().IsZero() || c.told != x.timesFor(r) {
		return fault.New(fault.Conflict, "reservation %q is not idle, or is not to be released: keep its node", r.Name)
	}
	if left := known.Ends.Sub(x.s.Now()); left > 0 {
		return fault.New(fault.Unavailable, "reservation %q is to be released in %s: report again then", r.Name, left.Round(time.Second)).RetryIn(left)
	}
	if x.s.Now().Sub(known.Ends) > closedFor {
		return fault.New(fault.Conflict, "reservation %q was to be released at %s, and its node may be open again: keep it", r.Name, known.Ends.UTC().Format(time.RFC3339))
	}
	x.s.Log().Info("idle reservation ends", "reservation", r.Name, "requester", r.Requester, "target", r.Provider, "since", known.Since)
	return x.s.Record(ledger.Event{By: ledger.Deadlines, Change: &ledger.End{
		Name: r.Name, Reason: ledger.EndIdle, Message: "nobody used it since " + known.Since.UTC().Format(time.RFC3339),
	}})
}

// IdleTimeOf returns what the requester is told about the idle time of a placement, nil if no idle time of
// the placement is recorded.
func (x *Idles) IdleTimeOf(r *ledger.Reservation, p *ledger.Placement) *v1.IdleTime {
	known := r.IdleNow()
	if known == nil || known.Placement != p.Number {
		return nil
	}
	out := &v1.IdleTime{Seconds: max(x.s.Now().Sub(known.Since), 0).Seconds()}
	if !known.Ends.IsZero() {
		out.ReleaseSeconds = new(max(known.Ends.Sub(x.s.Now()), 0).Seconds())
	}
	return out
}
