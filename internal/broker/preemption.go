package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queue"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// PreemptionConfig says whether who waits may take the place of others.
type PreemptionConfig struct {
	// LowerPriority reservations make room.
	LowerPriority bool
	// Grace is from the notice until they are taken down.
	Grace time.Duration
}

// preempt has others make room for a reservation that waits, where that is allowed and
// some of a lower priority can; it reports whether they were told.
func (t *term) preempt(r *ledger.Reservation) (bool, error) {
	config, priority := t.b.config.Preemption, t.priority(r)
	lowest, some := t.holders.lowest()
	if !config.LowerPriority || !some || lowest >= priority || !t.mayPreempt(r) || !t.settling().IsZero() {
		return false, nil
	}
	choice, ok := queue.Preempt(r.Amounts, priority, t.sites(r, slices.Sorted(maps.Keys(t.holders.on))))
	if !ok {
		return false, nil
	}
	e := &ledger.Preempt{Name: r.Name, Priority: priority, Provider: choice.Site, Ends: t.now().Add(config.Grace)}
	for _, v := range choice.Victims {
		e.Victims = append(e.Victims, ledger.Victim{
			PlacementRef: ledger.PlacementRef{Name: v.ID, Placement: t.state.Reservation(v.ID).Current().Number}, Priority: v.Priority,
		})
	}
	t.b.opts.Log.Info("reservations make room", "for", r.Name, "priority", priority, "target", choice.Site, "victims", len(e.Victims), "until", e.Ends)
	return true, t.record(ledger.Event{Change: e})
}

// mayPreempt is whether a reservation waits and nobody makes room for it, or all of
// them have and it has no place all the same.
func (t *term) mayPreempt(r *ledger.Reservation) bool {
	return r.Waiting != nil && (r.Waiting.Preemption == nil || t.state.Spent(r.Waiting.Preemption))
}

// preemptOn is preempt for the first one in the line that can have others make room on
// a cluster. It reports whether there may be more.
func (t *term) preemptOn(clusterID string) (bool, error) {
	if !t.b.config.Preemption.LowerPriority {
		return false, nil
	}
	if told, err := t.preemptAgain(clusterID); told || err != nil {
		return true, err
	}
	lowest, some := t.holders.lowestOn(clusterID)
	if !some {
		return false, nil
	}
	c := t.state.Cluster(clusterID)
	name := t.waiters.line.FirstOf(lowest+1, c.Lendable().Sub(c.Allocated), func(name string) bool {
		r := t.state.Reservation(name)
		if !t.mayPreempt(r) {
			return false
		}
		_, ok := queue.Preempt(r.Amounts, t.priority(r), t.sites(r, []string{clusterID}))
		return ok
	})
	if name == "" {
		return false, nil
	}
	return t.preempt(t.state.Reservation(name))
}

// preemptAgain is for one for whom all made room on a cluster that then took for itself
// what was freed.
func (t *term) preemptAgain(clusterID string) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(t.waiters.preempting)) {
		if r := t.state.Reservation(name); t.waiters.preempting[name] == clusterID && t.mayPreempt(r) {
			if told, err := t.preempt(r); told || err != nil {
				return told, err
			}
		}
	}
	return false, nil
}

// sites are those of some clusters that could serve a reservation if everybody of a
// lower priority there were gone.
func (t *term) sites(r *ledger.Reservation, ids []string) []queue.Site {
	var out []queue.Site
	for _, id := range ids {
		c := t.state.Cluster(id)
		free := c.Lendable().Sub(c.Allocated)
		if _, fits := quantity.Fits(r.Amounts, free); !fits {
			continue
		}
		others := t.earmarked(id, func(name string) bool { return name != r.Name })
		site := queue.Site{ID: id, Holders: t.yielding(id, t.priority(r)), Free: free.Sub(c.Claimed()).Sub(t.kept(c)).Sub(others)}
		if len(site.Holders) > 0 && t.couldServe(r, &site) {
			out = append(out, site)
		}
	}
	return out
}

// yielding are those on a cluster that may be told to make room for a priority.
func (t *term) yielding(clusterID string, priority int32) []queue.Holder {
	var out []queue.Holder
	for r, held := range t.holders.on[clusterID] {
		if held < priority {
			out = append(out, queue.Holder{ID: r.Name, Priority: held, Since: r.Current().AssignedAt.Time(), Amounts: t.claimedBy(r, r.Current())})
		}
	}
	slices.SortFunc(out, func(a, b queue.Holder) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// claimedBy is what a provider has free once a placement is gone: what it holds, or uses
// where that is more.
func (t *term) claimedBy(r *ledger.Reservation, p *ledger.Placement) quantity.Amounts {
	return r.HeldBy(p).Max(t.state.Cluster(p.Provider).Used[ledger.PlacementName(r.Name, p.Number)])
}

// couldServe tries it out in the market, and leaves that as it was.
func (t *term) couldServe(r *ledger.Reservation, s *queue.Site) bool {
	sum := s.Free
	for i := range s.Holders {
		sum = sum.Add(s.Holders[i].Amounts)
	}
	defer t.suppose(s.ID, sum)()
	return t.serves(s.ID, r)
}

// suppose shows other figures in the market until the function is called that it returns.
func (t *term) suppose(clusterID string, free quantity.Amounts) (undo func()) {
	t.market.SetAvailable(clusterID, free)
	return func() { t.market.SetAvailable(clusterID, t.free(t.state.Cluster(clusterID))) }
}

// earmark keeps note of the provider on which others make room for a reservation.
func (t *term) earmark(r *ledger.Reservation) {
	was, is := t.waiters.preempting[r.Name], ""
	if r.Waiting != nil && r.Waiting.Preemption != nil {
		is = r.Waiting.Preemption.Provider
		t.waiters.preempting[r.Name] = is
	} else {
		delete(t.waiters.preempting, r.Name)
	}
	for _, id := range []string{was, is} {
		if id != "" {
			t.relist(id)
			t.grew(id)
		}
	}
}

// free is what a cluster has for everybody: what others make room for is kept for
// whom they make it.
func (t *term) free(c *ledger.Cluster) quantity.Amounts {
	if len(t.waiters.preempting) == 0 && t.b.config.Headroom == 0 {
		return c.Available()
	}
	return c.Available().Sub(t.kept(c)).Sub(t.earmarked(c.ClusterID, everybody)).Max(nil)
}

// earmarked is what is kept on a cluster for those for whom others make room there, and
// whom which names. Of what each needs, that part is not kept yet that its victims hold.
func (t *term) earmarked(clusterID string, which func(name string) bool) quantity.Amounts {
	sum := quantity.Amounts{}
	for name, provider := range t.waiters.preempting {
		if provider != clusterID || !which(name) {
			continue
		}
		r := t.state.Reservation(name)
		need := r.Amounts
		for _, ref := range r.Waiting.Preemption.Victims {
			if t.state.Held(ref) {
				v := t.state.Reservation(ref.Name)
				need = need.Sub(t.claimedBy(v, v.Placement(ref.Placement)))
			}
		}
		sum = sum.Add(need.Max(nil))
	}
	return sum
}

func everybody(string) bool { return true }

// servePreemptor gives the first one its place for whom others have made room on a
// cluster.
func (t *term) servePreemptor(clusterID string) (bool, error) {
	var ready *ledger.Reservation
	for name, provider := range t.waiters.preempting {
		r := t.state.Reservation(name)
		if provider != clusterID || ready != nil && t.waiters.line.Place(name) > t.waiters.line.Place(ready.Name) {
			continue
		}
		if t.hasMadeRoom(clusterID, r) {
			ready = r
		}
	}
	if ready == nil {
		return false, nil
	}
	q, tried := again(ready)
	q.Target = clusterID
	defer t.suppose(clusterID, t.roomFor(clusterID, ready))()
	return true, t.grant(ready, clusterID, t.explain(t.sought(q, tried), clusterID))
}

// roomFor is what a cluster has for one for whom others make room there. Once they have,
// nothing is kept from it for those who come after it: else of two, for whom a cluster
// that shrank has not enough, neither would ever be served.
func (t *term) roomFor(clusterID string, r *ledger.Reservation) quantity.Amounts {
	c, place, spent := t.state.Cluster(clusterID), t.waiters.line.Place(r.Name), t.state.Spent(r.Waiting.Preemption)
	others := t.earmarked(clusterID, func(name string) bool {
		return name != r.Name && (!spent || t.waiters.line.Place(name) < place)
	})
	return c.Available().Sub(t.kept(c)).Sub(others).Max(nil)
}

func (t *term) hasMadeRoom(clusterID string, r *ledger.Reservation) bool {
	defer t.suppose(clusterID, t.roomFor(clusterID, r))()
	return t.serves(clusterID, r)
}

// makeRoom gives up a placement whose notice is over. The reservation goes elsewhere,
// waits, or ends.
func (t *term) makeRoom(r *ledger.Reservation) error {
	return t.giveUp(r, r.Placement(r.Notice.Placement), ledger.Preempted)
}

// noticeOf is what both sides of a placement are told that has to make room or is called
// back, whichever comes first; nil for any other.
func (t *term) noticeOf(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	if n := t.recallNotice(r, p); n != nil {
		return n
	}
	if r.Notice == nil || p == nil || r.Notice.Placement != p.Number {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonPreempted, Priority: r.Notice.Priority,
		RemainingSeconds: max(r.Notice.Ends.Sub(t.now()), 0).Seconds(), Message: t.noticeMessage(r),
	}
}

// noticeMessage names priorities and times, and nobody else's name.
func (t *term) noticeMessage(r *ledger.Reservation) string {
	then := "then it ends, unless another cluster has room"
	if r.Queue {
		then = "then it goes elsewhere or waits for capacity"
	}
	return fmt.Sprintf("a request of priority %d needs the room of this one, of priority %d, on %s: it is taken down at %s; %s",
		r.Notice.Priority, t.priority(r), r.Placement(r.Notice.Placement).Provider, r.Notice.Ends.UTC().Format(time.RFC3339), then)
}

// preemptionMessage says for what a reservation waits for which others make room.
func (t *term) preemptionMessage(r *ledger.Reservation) string {
	p, left := r.Waiting.Preemption, 0
	for _, ref := range p.Victims {
		if t.state.Held(ref) {
			left++
		}
	}
	what := []string{fmt.Sprintf("%d of %d reservations of a lower priority on %s have yet to make room", left, len(p.Victims), p.Provider)}
	if t.now().Before(p.Ends) {
		what = append(what, "they have until "+p.Ends.UTC().Format(time.RFC3339))
	}
	return strings.Join(what, "; ")
}
