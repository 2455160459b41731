package queueing

import (
	"cmp"
	"maps"
	"slices"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queue"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// updateHolder adds a reservation to the holders if it may be preempted, and removes it otherwise.
// A new holder may become a victim of a waiting request.
func (qu *Queue) updateHolder(r *ledger.Reservation) {
	h, p := &qu.holders, r.Current()
	has := r.Stands(p) && r.Notice == nil && r.CalledBack() == nil && !r.Unclaimed && r.Beside(p) == nil
	var priority int32
	if has {
		priority = qu.priorityOf(r)
		if was, had := h.on[p.Provider][r]; had && was == priority {
			return
		}
	}
	for i := range r.Placements {
		h.removeHolder(r.Placements[i].Provider, r)
	}
	if has {
		h.addHolder(p.Provider, r, priority)
		qu.s.NotePreemptable(p.Provider)
	}
}

// preemptFor gives notice to victims for a waiting reservation, if preemption is enabled and enough
// holders have a lower priority. It reports whether it gave notice.
func (qu *Queue) preemptFor(r *ledger.Reservation) (bool, error) {
	config, priority := qu.s.Rules().Preemption, qu.priorityOf(r)
	lowest, some := qu.holders.lowestPriority()
	if !config.LowerPriority || !some || lowest >= priority || !qu.mayPreempt(r) || qu.s.Rules().Paused || !qu.s.SettledAt().IsZero() {
		return false, nil
	}
	choice, ok := queue.Preempt(r.Amounts, priority, qu.listSites(r, slices.Sorted(maps.Keys(qu.holders.on))))
	if !ok {
		return false, nil
	}
	e := &ledger.Preempt{Name: r.Name, Priority: priority, Provider: choice.Site, Ends: qu.s.Now().Add(config.Grace)}
	for _, v := range choice.Victims {
		e.Victims = append(e.Victims, ledger.Victim{
			PlacementRef: ledger.PlacementRef{Name: v.ID, Placement: qu.s.Book().Reservation(v.ID).Current().Number}, Priority: v.Priority,
		})
	}
	qu.s.Log().Info("reservations make room", "for", r.Name, "priority", priority, "target", choice.Site, "victims", len(e.Victims), "until", e.Ends)
	return true, qu.s.Record(ledger.Event{Change: e})
}

// mayPreempt reports whether a waiting reservation may preempt: it has no victims yet, or all its
// victims are gone and it still waits.
func (qu *Queue) mayPreempt(r *ledger.Reservation) bool {
	return r.Waiting != nil && (r.Waiting.Preemption == nil || qu.s.Book().Spent(r.Waiting.Preemption))
}

// PreemptOn gives notice to victims for the first waiting request that finds any on the cluster. Like
// preemptFor, it may choose victims on another cluster, if fewer suffice there. It reports whether there
// may be another such request.
func (qu *Queue) PreemptOn(clusterID string) (bool, error) {
	if !qu.s.Rules().Preemption.LowerPriority {
		return false, nil
	}
	if told, err := qu.preemptAgain(clusterID); told || err != nil {
		return true, err
	}
	lowest, some := qu.holders.lowestOn(clusterID)
	if !some {
		return false, nil
	}
	c := qu.s.Book().Cluster(clusterID)
	name := qu.line.FirstOf(lowest+1, c.Lendable().Sub(c.Allocated), func(name string) bool {
		r := qu.s.Book().Reservation(name)
		if !qu.mayPreempt(r) {
			return false
		}
		_, ok := queue.Preempt(r.Amounts, qu.priorityOf(r), qu.listSites(r, []string{clusterID}))
		return ok
	})
	if name == "" {
		return false, nil
	}
	return qu.preemptFor(qu.s.Book().Reservation(name))
}

// preemptAgain gives notice to further victims for a preemptor if its victims are gone and their
// capacity was used by the cluster itself. It reports whether it gave notice.
func (qu *Queue) preemptAgain(clusterID string) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(qu.targets)) {
		if r := qu.s.Book().Reservation(name); qu.targets[name] == clusterID && qu.mayPreempt(r) {
			if told, err := qu.preemptFor(r); told || err != nil {
				return told, err
			}
		}
	}
	return false, nil
}

// listSites returns those of the given clusters that could serve the reservation if all holders of
// a lower priority left.
func (qu *Queue) listSites(r *ledger.Reservation, ids []string) []queue.Site {
	var out []queue.Site
	for _, id := range ids {
		c := qu.s.Book().Cluster(id)
		free := c.Lendable().Sub(c.Allocated)
		if _, fits := quantity.Fits(r.Amounts, free); !fits {
			continue
		}
		others := qu.earmarkedAmounts(id, func(name string) bool { return name != r.Name })
		site := queue.Site{ID: id, Holders: qu.yieldingHolders(id, qu.priorityOf(r)), Free: free.Sub(c.Claimed()).Sub(qu.headroomOf(c)).Sub(others)}
		if len(site.Holders) > 0 && qu.couldServe(r, &site) {
			out = append(out, site)
		}
	}
	return out
}

// yieldingHolders returns the holders on a cluster whose priority is below the given one.
func (qu *Queue) yieldingHolders(clusterID string, priority int32) []queue.Holder {
	var out []queue.Holder
	for r, held := range qu.holders.on[clusterID] {
		if held < priority {
			out = append(out, queue.Holder{ID: r.Name, Priority: held, Since: r.Current().AssignedAt.Time(), Amounts: qu.ClaimedBy(r, r.Current())})
		}
	}
	slices.SortFunc(out, func(a, b queue.Holder) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// ClaimedBy returns the capacity that a provider regains when the placement is gone: for each
// resource the larger of the held and the used amount.
func (qu *Queue) ClaimedBy(r *ledger.Reservation, p *ledger.Placement) quantity.Amounts {
	return r.HeldBy(p).Max(qu.s.Book().Cluster(p.Provider).Used[brokerv1alpha1.PlacementName(r.Name, p.Number)])
}

// couldServe reports whether a site could serve the reservation if all its holders left. To check
// this, it changes the free amounts in the market, and restores them afterwards.
func (qu *Queue) couldServe(r *ledger.Reservation, s *queue.Site) bool {
	sum := s.Free
	for i := range s.Holders {
		sum = sum.Add(s.Holders[i].Amounts)
	}
	defer qu.supposeFree(s.ID, sum)()
	return qu.fitsOn(s.ID, r)
}

// supposeFree replaces the free amounts of a cluster in the market until undo is called.
func (qu *Queue) supposeFree(clusterID string, free quantity.Amounts) (undo func()) {
	qu.market.SetAvailable(clusterID, free)
	return func() { qu.market.SetAvailable(clusterID, qu.OpenCapacity(qu.s.Book().Cluster(clusterID))) }
}

// updateTarget stores the target of a preemptor. It drops the target if the reservation is no
// longer a preemptor.
func (qu *Queue) updateTarget(r *ledger.Reservation) {
	was, is := qu.targets[r.Name], ""
	if r.Waiting != nil && r.Waiting.Preemption != nil {
		is = r.Waiting.Preemption.Provider
		qu.targets[r.Name] = is
	} else {
		delete(qu.targets, r.Name)
	}
	for _, id := range []string{was, is} {
		if id != "" {
			qu.s.NoteOutdated(id)
			qu.s.NoteFreed(id)
		}
	}
}

// OpenCapacity returns the capacity of a cluster that any request may use. It excludes the headroom
// and the capacity that victims free for their preemptors.
func (qu *Queue) OpenCapacity(c *ledger.Cluster) quantity.Amounts {
	if len(qu.targets) == 0 && qu.s.Rules().Headroom == 0 {
		return qu.s.FreeOf(c)
	}
	return qu.s.FreeOf(c).Sub(qu.headroomOf(c)).Sub(qu.earmarkedAmounts(c.ClusterID, anyPreemptor)).Max(nil)
}

// earmarkedAmounts returns the capacity on a cluster that is reserved for preemptors. It counts a
// preemptor only if the parameter which, a function, returns true for the preemptor's name. It
// excludes what their victims still hold, because that is not free yet.
func (qu *Queue) earmarkedAmounts(clusterID string, which func(name string) bool) quantity.Amounts {
	sum := quantity.Amounts{}
	for name, provider := range qu.targets {
		if provider != clusterID || !which(name) {
			continue
		}
		r := qu.s.Book().Reservation(name)
		need := r.Amounts
		for _, ref := range r.Waiting.Preemption.Victims {
			if qu.s.Book().Held(ref) {
				v := qu.s.Book().Reservation(ref.Name)
				need = need.Sub(qu.ClaimedBy(v, v.Placement(ref.Placement)))
			}
		}
		sum = sum.Add(need.Max(nil))
	}
	return sum
}

func anyPreemptor(string) bool { return true }

// grantPreemptor looks for the first preemptor whose target is the cluster and that fits there now,
// and grants it. It reports whether there was one.
func (qu *Queue) grantPreemptor(clusterID string) (bool, error) {
	var ready *ledger.Reservation
	for name, provider := range qu.targets {
		r := qu.s.Book().Reservation(name)
		if provider != clusterID || ready != nil && qu.line.Place(name) > qu.line.Place(ready.Name) {
			continue
		}
		if qu.hasMadeRoom(clusterID, r) {
			ready = r
		}
	}
	if ready == nil {
		return false, nil
	}
	q, tried := qu.requestAndTried(ready)
	q.Target = clusterID
	defer qu.supposeFree(clusterID, qu.roomFor(clusterID, ready))()
	return true, qu.grantPlacement(ready, qu.s.Explain(qu.s.NewDecisionRequest(q, tried), q, clusterID))
}

// roomFor returns the capacity of a cluster that a preemptor may use. Once all its victims are
// gone, it may also use what is reserved for later preemptors. Otherwise two preemptors could block
// each other forever on a cluster that has shrunk.
func (qu *Queue) roomFor(clusterID string, r *ledger.Reservation) quantity.Amounts {
	c, place, spent := qu.s.Book().Cluster(clusterID), qu.line.Place(r.Name), qu.s.Book().Spent(r.Waiting.Preemption)
	others := qu.earmarkedAmounts(clusterID, func(name string) bool {
		return name != r.Name && (!spent || qu.line.Place(name) < place)
	})
	return c.Available().Sub(qu.headroomOf(c)).Sub(others).Max(nil)
}

// hasMadeRoom reports whether a preemptor now fits on the cluster, its target.
func (qu *Queue) hasMadeRoom(clusterID string, r *ledger.Reservation) bool {
	defer qu.supposeFree(clusterID, qu.roomFor(clusterID, r))()
	return qu.fitsOn(clusterID, r)
}
