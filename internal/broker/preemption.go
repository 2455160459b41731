package broker

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queue"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// PreemptionConfig says whether waiting requests may displace other reservations.
type PreemptionConfig struct {
	// LowerPriority is true if reservations of a lower priority have to make room for waiting
	// requests.
	LowerPriority bool
	// Grace is the time between the notice and the end of the placement.
	Grace time.Duration
}

// preemption makes reservations of a lower priority make room for waiting requests. A holder is a
// reservation that may be preempted. A victim has been given notice to make room. A preemptor is
// the waiting request for which the victims make room; its target is their provider.
type preemption struct {
	s       *session
	holders holders
	// targets maps the name of each preemptor to its target.
	targets map[string]string
	// stirred are the clusters on which a waiting request may find victims that were not there when
	// the queue was last served.
	stirred map[string]bool
}

func newPreemption(s *session) preemption {
	return preemption{s: s, holders: newHolders(), targets: map[string]string{}, stirred: map[string]bool{}}
}

func (pr *preemption) reservationChanged(r *ledger.Reservation) {
	pr.updateTarget(r)
	pr.updateHolder(r)
}

// reconsiderHolders recomputes the holders after the configuration has changed.
func (pr *preemption) reconsiderHolders() {
	for _, r := range pr.holders.listHolders() {
		pr.updateHolder(r)
	}
}

// noteVictims notes that a waiting request may find new victims on the cluster.
func (pr *preemption) noteVictims(clusterID string) { pr.stirred[clusterID] = true }

// updateHolder adds a reservation to the holders if it may be preempted, and removes it otherwise.
// A new holder may become a victim of a waiting request.
func (pr *preemption) updateHolder(r *ledger.Reservation) {
	h, p := &pr.holders, r.Current()
	has := r.Stands(p) && r.Notice == nil && r.CalledBack() == nil && !r.Unclaimed && r.Beside(p) == nil
	var priority int32
	if has {
		priority = pr.s.priorityOf(r)
		if was, had := h.on[p.Provider][r]; had && was == priority {
			return
		}
	}
	for i := range r.Placements {
		h.removeHolder(r.Placements[i].Provider, r)
	}
	if has {
		h.addHolder(p.Provider, r, priority)
		pr.noteVictims(p.Provider)
	}
}

// preemptFor gives notice to victims for a waiting reservation, if preemption is enabled and enough
// holders have a lower priority. It reports whether it gave notice.
func (pr *preemption) preemptFor(r *ledger.Reservation) (bool, error) {
	config, priority := pr.s.config().Preemption, pr.s.priorityOf(r)
	lowest, some := pr.holders.lowestPriority()
	if !config.LowerPriority || !some || lowest >= priority || !pr.mayPreempt(r) || pr.s.queue.isPaused() || !pr.s.recovery.SettledAt().IsZero() {
		return false, nil
	}
	choice, ok := queue.Preempt(r.Amounts, priority, pr.listSites(r, slices.Sorted(maps.Keys(pr.holders.on))))
	if !ok {
		return false, nil
	}
	e := &ledger.Preempt{Name: r.Name, Priority: priority, Provider: choice.Site, Ends: pr.s.now().Add(config.Grace)}
	for _, v := range choice.Victims {
		e.Victims = append(e.Victims, ledger.Victim{
			PlacementRef: ledger.PlacementRef{Name: v.ID, Placement: pr.s.book.Reservation(v.ID).Current().Number}, Priority: v.Priority,
		})
	}
	pr.s.log.Info("reservations make room", "for", r.Name, "priority", priority, "target", choice.Site, "victims", len(e.Victims), "until", e.Ends)
	return true, pr.s.record(ledger.Event{Change: e})
}

// mayPreempt reports whether a waiting reservation may preempt: it has no victims yet, or all its
// victims are gone and it still waits.
func (pr *preemption) mayPreempt(r *ledger.Reservation) bool {
	return r.Waiting != nil && (r.Waiting.Preemption == nil || pr.s.book.Spent(r.Waiting.Preemption))
}

// preemptOn gives notice to victims for the first waiting request that finds any on the cluster. Like
// preemptFor, it may choose victims on another cluster, if fewer suffice there. It reports whether there
// may be another such request.
func (pr *preemption) preemptOn(clusterID string) (bool, error) {
	if !pr.s.config().Preemption.LowerPriority {
		return false, nil
	}
	if told, err := pr.preemptAgain(clusterID); told || err != nil {
		return true, err
	}
	lowest, some := pr.holders.lowestOn(clusterID)
	if !some {
		return false, nil
	}
	c := pr.s.book.Cluster(clusterID)
	name := pr.s.queue.line.FirstOf(lowest+1, c.Lendable().Sub(c.Allocated), func(name string) bool {
		r := pr.s.book.Reservation(name)
		if !pr.mayPreempt(r) {
			return false
		}
		_, ok := queue.Preempt(r.Amounts, pr.s.priorityOf(r), pr.listSites(r, []string{clusterID}))
		return ok
	})
	if name == "" {
		return false, nil
	}
	return pr.preemptFor(pr.s.book.Reservation(name))
}

// preemptAgain gives notice to further victims for a preemptor if its victims are gone and their
// capacity was used by the cluster itself. It reports whether it gave notice.
func (pr *preemption) preemptAgain(clusterID string) (bool, error) {
	for _, name := range slices.Sorted(maps.Keys(pr.targets)) {
		if r := pr.s.book.Reservation(name); pr.targets[name] == clusterID && pr.mayPreempt(r) {
			if told, err := pr.preemptFor(r); told || err != nil {
				return told, err
			}
		}
	}
	return false, nil
}

// listSites returns those of the given clusters that could serve the reservation if all holders of
// a lower priority left.
func (pr *preemption) listSites(r *ledger.Reservation, ids []string) []queue.Site {
	var out []queue.Site
	for _, id := range ids {
		c := pr.s.book.Cluster(id)
		free := c.Lendable().Sub(c.Allocated)
		if _, fits := quantity.Fits(r.Amounts, free); !fits {
			continue
		}
		others := pr.earmarkedAmounts(id, func(name string) bool { return name != r.Name })
		site := queue.Site{ID: id, Holders: pr.yieldingHolders(id, pr.s.priorityOf(r)), Free: free.Sub(c.Claimed()).Sub(pr.s.clusters.headroomOf(c)).Sub(others)}
		if len(site.Holders) > 0 && pr.couldServe(r, &site) {
			out = append(out, site)
		}
	}
	return out
}

// yieldingHolders returns the holders on a cluster whose priority is below the given one.
func (pr *preemption) yieldingHolders(clusterID string, priority int32) []queue.Holder {
	var out []queue.Holder
	for r, held := range pr.holders.on[clusterID] {
		if held < priority {
			out = append(out, queue.Holder{ID: r.Name, Priority: held, Since: r.Current().AssignedAt.Time(), Amounts: pr.claimedBy(r, r.Current())})
		}
	}
	slices.SortFunc(out, func(a, b queue.Holder) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// claimedBy returns the capacity that a provider regains when the placement is gone: for each
// resource the larger of the held and the used amount.
func (pr *preemption) claimedBy(r *ledger.Reservation, p *ledger.Placement) quantity.Amounts {
	return r.HeldBy(p).Max(pr.s.book.Cluster(p.Provider).Used[brokerv1alpha1.PlacementName(r.Name, p.Number)])
}

// couldServe reports whether a site could serve the reservation if all its holders left. To check
// this, it changes the free amounts in the market, and restores them afterwards.
func (pr *preemption) couldServe(r *ledger.Reservation, s *queue.Site) bool {
	sum := s.Free
	for i := range s.Holders {
		sum = sum.Add(s.Holders[i].Amounts)
	}
	defer pr.supposeFree(s.ID, sum)()
	return pr.s.queue.fitsOn(s.ID, r)
}

// supposeFree replaces the free amounts of a cluster in the market until undo is called.
func (pr *preemption) supposeFree(clusterID string, free quantity.Amounts) (undo func()) {
	pr.s.market.SetAvailable(clusterID, free)
	return func() { pr.s.market.SetAvailable(clusterID, pr.openCapacity(pr.s.book.Cluster(clusterID))) }
}

// updateTarget stores the target of a preemptor. It drops the target if the reservation is no
// longer a preemptor.
func (pr *preemption) updateTarget(r *ledger.Reservation) {
	was, is := pr.targets[r.Name], ""
	if r.Waiting != nil && r.Waiting.Preemption != nil {
		is = r.Waiting.Preemption.Provider
		pr.targets[r.Name] = is
	} else {
		delete(pr.targets, r.Name)
	}
	for _, id := range []string{was, is} {
		if id != "" {
			pr.s.clusters.refreshAvailability(id)
			pr.s.queue.noteFreed(id)
		}
	}
}

// openCapacity returns the capacity of a cluster that any request may use. It excludes the headroom
// and the capacity that victims free for their preemptors.
func (pr *preemption) openCapacity(c *ledger.Cluster) quantity.Amounts {
	if len(pr.targets) == 0 && pr.s.config().Headroom == 0 {
		return c.Available()
	}
	return c.Available().Sub(pr.s.clusters.headroomOf(c)).Sub(pr.earmarkedAmounts(c.ClusterID, anyPreemptor)).Max(nil)
}

// earmarkedAmounts returns the capacity on a cluster that is reserved for preemptors. It counts a
// preemptor only if the parameter which, a function, returns true for the preemptor's name. It
// excludes what their victims still hold, because that is not free yet.
func (pr *preemption) earmarkedAmounts(clusterID string, which func(name string) bool) quantity.Amounts {
	sum := quantity.Amounts{}
	for name, provider := range pr.targets {
		if provider != clusterID || !which(name) {
			continue
		}
		r := pr.s.book.Reservation(name)
		need := r.Amounts
		for _, ref := range r.Waiting.Preemption.Victims {
			if pr.s.book.Held(ref) {
				v := pr.s.book.Reservation(ref.Name)
				need = need.Sub(pr.claimedBy(v, v.Placement(ref.Placement)))
			}
		}
		sum = sum.Add(need.Max(nil))
	}
	return sum
}

func anyPreemptor(string) bool { return true }

// grantPreemptor grants the first preemptor that fits on its target, the given cluster. It reports
// whether there was one.
func (pr *preemption) grantPreemptor(clusterID string) (bool, error) {
	var ready *ledger.Reservation
	for name, provider := range pr.targets {
		r := pr.s.book.Reservation(name)
		if provider != clusterID || ready != nil && pr.s.queue.line.Place(name) > pr.s.queue.line.Place(ready.Name) {
			continue
		}
		if pr.hasMadeRoom(clusterID, r) {
			ready = r
		}
	}
	if ready == nil {
		return false, nil
	}
	q, tried := pr.s.requestAndTried(ready)
	q.Target = clusterID
	defer pr.supposeFree(clusterID, pr.roomFor(clusterID, ready))()
	return true, pr.s.queue.grantPlacement(ready, clusterID, pr.s.decider.explainChoice(pr.s.decider.newDecisionRequest(q, tried), clusterID))
}

// roomFor returns the capacity of a cluster that a preemptor may use. Once all its victims are
// gone, it may also use what is reserved for later preemptors. Otherwise two preemptors could block
// each other forever on a cluster that has shrunk.
func (pr *preemption) roomFor(clusterID string, r *ledger.Reservation) quantity.Amounts {
	c, place, spent := pr.s.book.Cluster(clusterID), pr.s.queue.line.Place(r.Name), pr.s.book.Spent(r.Waiting.Preemption)
	others := pr.earmarkedAmounts(clusterID, func(name string) bool {
		return name != r.Name && (!spent || pr.s.queue.line.Place(name) < place)
	})
	return c.Available().Sub(pr.s.clusters.headroomOf(c)).Sub(others).Max(nil)
}

// hasMadeRoom reports whether a preemptor now fits on the cluster, its target.
func (pr *preemption) hasMadeRoom(clusterID string, r *ledger.Reservation) bool {
	defer pr.supposeFree(clusterID, pr.roomFor(clusterID, r))()
	return pr.s.queue.fitsOn(clusterID, r)
}

// makeRoom gives up a placement whose time to make room is over. The reservation moves, waits, or
// ends.
func (pr *preemption) makeRoom(r *ledger.Reservation) error {
	return pr.s.reservations.withdrawPlacement(r, r.Placement(r.Notice.Placement), ledger.Preempted)
}

// noticeOf returns the notice for both sides of a placement that has to make room or was recalled;
// nil for any other placement. If both apply, it returns the one that ends first.
func (pr *preemption) noticeOf(r *ledger.Reservation, p *ledger.Placement) *v1.Notice {
	if n := pr.s.reservations.recallNotice(r, p); n != nil {
		return n
	}
	if r.Notice == nil || p == nil || r.Notice.Placement != p.Number {
		return nil
	}
	return &v1.Notice{
		Reason: v1.NoticeReasonPreempted, Priority: r.Notice.Priority,
		RemainingSeconds: max(r.Notice.Ends.Sub(pr.s.now()), 0).Seconds(), Message: pr.noticeMessage(r),
	}
}

// noticeMessage returns the text of the notice to make room. It contains priorities and times, but
// does not reveal the other requester.
func (pr *preemption) noticeMessage(r *ledger.Reservation) string {
	then := "then it ends, unless another cluster has room"
	if r.Queue {
		then = "then it goes elsewhere or waits for capacity"
	}
	return fmt.Sprintf("a request of priority %d needs the capacity of this reservation, of priority %d, on %s: the placement ends at %s; %s",
		r.Notice.Priority, pr.s.priorityOf(r), r.Placement(r.Notice.Placement).Provider, r.Notice.Ends.UTC().Format(time.RFC3339), then)
}

// describeVictims says how many victims still have to make room for a waiting reservation, and
// until when.
func (pr *preemption) describeVictims(r *ledger.Reservation) string {
	p, left := r.Waiting.Preemption, 0
	for _, ref := range p.Victims {
		if pr.s.book.Held(ref) {
			left++
		}
	}
	what := []string{fmt.Sprintf("%d of %d reservations of a lower priority on %s must still make room", left, len(p.Victims), p.Provider)}
	if pr.s.now().Before(p.Ends) {
		what = append(what, "they have until "+p.Ends.UTC().Format(time.RFC3339))
	}
	return strings.Join(what, "; ")
}
