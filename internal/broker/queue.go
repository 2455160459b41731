package broker

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queue"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// QueueConfig limits the queue.
type QueueConfig struct {
	// MaxLength is how many requests may wait.
	MaxLength int
	// Timeout is how long a request may wait if it does not set a time itself.
	Timeout time.Duration
	// Paused stops the broker from granting waiting requests. They keep their places, even beyond
	// their timeouts.
	Paused bool
}

const (
	// queueRefresh is how often a requester is asked to fetch its place in the queue. A requester
	// at one of the first places is asked every frontRefresh, because these places change more
	// often. The broker reports a grant without being asked.
	queueRefresh = time.Minute
	frontRefresh = 10 * time.Second
	// FrontPlaces is the number of places in the queue whose requesters are asked every
	// frontRefresh. The limit keeps the number of these calls low.
	FrontPlaces = 16
	// queueDue is the name of the deadline at which the broker serves the queue again.
	queueDue = "queue/"
	// triedDue is the prefix of the names of the deadlines at which a waiting reservation may
	// return to a provider that failed it.
	triedDue = "tried/"
)

// queueing manages the requests that wait for capacity. line and all other state are computed from
// the book. freed are the clusters that may now serve a request that they could not serve before.
type queueing struct {
	s     *session
	line  queue.Line
	freed map[string]bool
	// serving prevents serveWaiting from calling itself through its own grants.
	serving bool
}

func newQueueing(s *session) queueing { return queueing{s: s, freed: map[string]bool{}} }

func (qu *queueing) Observe(e term.Event) {
	r := e.Changed
	if _, exceeded := e.Change.(*ledger.Exceed); r == nil || exceeded {
		return
	}
	qu.noteAffinity(&r.Reserve)
	switch e.Change.(type) {
	case *ledger.ProviderGone, *ledger.Withdraw, *ledger.End:
		for i := range r.Placements {
			if p := &r.Placements[i]; p.ProviderGone {
				// A preemptor that waited for this placement to end may be granted elsewhere, even
				// if this cluster has nothing free.
				qu.noteFreed(p.Provider)
			}
		}
	case *ledger.Edit:
		if r.Waiting != nil {
			qu.noteAllFreed() // there may be room for the new amounts
		}
	}
}

// requestAndTried returns the request of a reservation, and the providers that it tried.
func (s *session) requestAndTried(r *ledger.Reservation) (*requests.Request, ledger.Tried) {
	return requests.Of(r), r.Tried(s.now())
}

// classOf returns a text that is equal for two waiting reservations if the same clusters can serve
// them: they are one class, which the queue tests only once. A reservation with victims is a class
// of its own.
func (qu *queueing) classOf(r *ledger.Reservation) string {
	q, tried := qu.s.requestAndTried(r)
	q.Key, q.Tenant, q.Priority, q.Object, q.Queue, q.Wait = "", "", 0, nil, false, 0
	if q.Demands().Data == nil {
		// The duration only matters if there is data, whose one-time price is spread over it.
		q.Duration = 0
	}
	alone := ""
	if r.Waiting.Preemption != nil {
		alone = r.Name
	}
	text, err := json.Marshal(struct {
		Request *requests.Request
		Tried   []string
		Alone   string
	}{q, tried.Excluded, alone})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// enqueueRequest puts a new request that no cluster can serve into the queue; why is the refusal
// that it would get otherwise.
func (qu *queueing) enqueueRequest(q *requests.Request, why *fault.Error) (*ledger.Reservation, error) {
	if most := qu.s.config().Queue.MaxLength; qu.line.Len() >= most {
		e := fault.New(fault.QueueFull, "%s; and the queue is full: %d requests wait, BrokerConfig.spec.queue.maxLength sets the maximum", why.Detail, most)
		e.RetryAfter, e.Candidates, e.Rejected = term.QueueFullRetry, why.Candidates, why.Rejected
		return nil, e
	}
	if err := qu.s.accounts.CheckWaiting(q); err != nil {
		return nil, err
	}
	reserve := qu.s.reservations.newReserve(q, "res-")
	err := qu.s.record(ledger.Event{By: q.By, Change: &ledger.Enqueue{
		Request: reserve, Until: qu.s.now().Add(qu.timeoutOf(q)), Explanation: ledger.Explain(why.Candidates, why.Rejected),
	}})
	if err != nil {
		return nil, err
	}
	qu.s.log.Info(q.Requester+" waits for capacity", "reservation", reserve.Name, "requester", q.Requester,
		"resources", q.Amounts.Describe(), "place", qu.line.Place(reserve.Name))
	r := qu.s.book.Reservation(reserve.Name)
	_, err = qu.s.preemption.preemptFor(r)
	return r, err
}

// requeueReservation puts a reservation whose placement was given up into the queue.
func (qu *queueing) requeueReservation(r *ledger.Reservation, why *fault.Error) error {
	err := qu.s.record(ledger.Event{Change: &ledger.Enqueue{
		Name: r.Name, Until: qu.s.now().Add(qu.timeoutOf(requests.Of(r))), Explanation: ledger.Explain(why.Candidates, why.Rejected),
	}})
	if err != nil {
		return err
	}
	qu.s.log.Info("reservation waits for capacity again", "reservation", r.Name, "requester", r.Requester, "from", r.Current().Provider,
		"why", r.Current().Withdrawn)
	_, err = qu.s.preemption.preemptFor(r)
	return err
}

// timeoutOf returns how long a request may wait.
func (qu *queueing) timeoutOf(q *requests.Request) time.Duration {
	if q.Wait != 0 {
		return q.Wait
	}
	return qu.s.config().Queue.Timeout
}

// reservationChanged updates the line of waiting requests: it takes the reservation out and, if it
// waits, adds it again at its present place.
func (qu *queueing) reservationChanged(r *ledger.Reservation) {
	qu.line.Remove(r.Name)
	if r.Waiting != nil {
		qu.s.deadlines.setDeadline(triedDue+r.Name, r.Tried(qu.s.now()).Next)
		rank := queue.Rank{Priority: qu.s.priorityOf(r), Position: r.Waiting.Position}
		qu.line.Add(queue.Waiter{ID: r.Name, Class: qu.classOf(r), Needs: r.Amounts, Rank: rank})
	}
}

// endExclusion lets the queue consider a waiting reservation for the providers that are no longer
// excluded.
func (qu *queueing) endExclusion(name string) {
	r := qu.s.book.Reservation(name)
	if r == nil || r.Waiting == nil {
		return
	}
	qu.reservationChanged(r)
	tried := r.Tried(qu.s.now())
	for i := range r.Placements {
		if id := r.Placements[i].Provider; !slices.Contains(tried.Excluded, id) {
			qu.noteFreed(id)
		}
	}
}

// applyConfig applies a new configuration, which may have changed priorities, preemption, the
// admission of clusters, and the headroom.
func (qu *queueing) applyConfig() {
	var names []string
	qu.line.All(func(name string) bool { names = append(names, name); return true })
	for _, name := range names {
		r := qu.s.book.Reservation(name)
		qu.reservationChanged(r)
		qu.s.preemption.reservationChanged(r)
	}
	qu.s.preemption.reconsiderHolders()
	qu.s.book.Clusters(func(c *ledger.Cluster) {
		qu.s.market.SetAvailable(c.ClusterID, qu.s.clusters.updateFree(c))
		qu.noteFreed(c.ClusterID)
	})
}

// noteFreed notes that a cluster may now serve a request that it could not serve before. The next
// serveWaiting will try.
func (qu *queueing) noteFreed(clusterID string) {
	qu.freed[clusterID] = true
	qu.s.preemption.noteVictims(clusterID)
	qu.s.healing.RetrySoon()
}

// noteAllFreed calls noteFreed for every cluster.
func (qu *queueing) noteAllFreed() {
	qu.s.book.Clusters(func(c *ledger.Cluster) { qu.noteFreed(c.ClusterID) })
}

// serveWaiting grants freed capacity to waiting requests. Then it preempts for waiting requests
// where that has become possible. Its cost depends on what has changed and on the requests that it
// serves, not on the number of waiting requests.
//
// A grant is an event, and observers of events may note more freed capacity. So serveWaiting
// repeats until no more is noted. It returns at once if it is called while it runs.
func (qu *queueing) serveWaiting() {
	if qu.serving || !qu.mayServe() {
		return
	}
	qu.serving = true
	defer func() { qu.serving = false }()
	defer qu.s.accounts.PauseCharging()() // the grants of others are not charged to the caller
	for {
		clusters, serveOn := qu.freed, qu.serveNextOn
		if len(clusters) == 0 {
			clusters, serveOn = qu.s.preemption.stirred, qu.s.preemption.preemptOn
		}
		if len(clusters) == 0 {
			return
		}
		id := slices.Min(slices.Collect(maps.Keys(clusters)))
		more, err := serveOn(id)
		if err != nil {
			qu.s.log.Error(err, "serving the queue failed, retrying", "cluster", id)
			qu.s.deadlines.setDeadline(queueDue, qu.s.now().Add(reopenDelay))
			return
		}
		if !more {
			delete(clusters, id)
		}
	}
}

// isPaused reports whether the administrator has paused the queue.
func (qu *queueing) isPaused() bool { return qu.s.config().Queue.Paused }

// publishWaiting marks all waiting requests as changed, so that their statuses show whether the
// queue is paused.
func (qu *queueing) publishWaiting() {
	var names []string
	qu.line.All(func(name string) bool { names = append(names, name); return true })
	for _, name := range names {
		qu.s.changes.publishChange(qu.s.book.Reservation(name))
	}
}

// errPaused returns the refusal of a new request for which a cluster has room, but a waiting
// request comes first and the queue is paused.
func (qu *queueing) errPaused(c *term.Decision) *fault.Error {
	e := fault.New(fault.NoCandidate, "%s has room, but a waiting request comes first, and the broker's administrator has paused the queue", c.Provider)
	e.Candidates, e.Rejected = qu.s.decider.decodeCandidates(c.Explanation), c.Explanation.Rejected()
	return e
}

// mayServe reports whether serveWaiting has something to try now. If no request waits, it forgets the
// noted clusters.
func (qu *queueing) mayServe() bool {
	if len(qu.freed)+len(qu.s.preemption.stirred) == 0 || !qu.s.b.configured {
		return false
	}
	if qu.line.Len() == 0 {
		clear(qu.freed)
		clear(qu.s.preemption.stirred)
		return false
	}
	if qu.isPaused() {
		return false // freed keeps the clusters until the queue is resumed
	}
	if until := qu.s.recovery.SettledAt(); !until.IsZero() {
		// A waiting request may have been granted in a lost part of the journal.
		qu.s.deadlines.setDeadline(queueDue, until)
		return false
	}
	return true
}

// serveNextOn grants the first waiting request that fits on a cluster, and reports whether there
// may be another one.
func (qu *queueing) serveNextOn(clusterID string) (bool, error) {
	if served, err := qu.s.preemption.grantPreemptor(clusterID); served || err != nil {
		return served, err
	}
	name := qu.firstOn(clusterID)
	if name == "" {
		return false, nil
	}
	r := qu.s.book.Reservation(name)
	q, tried := qu.s.requestAndTried(r)
	request := qu.s.decider.newDecisionRequest(q, tried)
	winner, ok := qu.s.decider.pickBest(request, q.Target)
	if !ok {
		return false, nil
	}
	if refreshed, err := qu.s.clusters.recordPending(winner); refreshed || err != nil {
		return true, err
	}
	if qu.freed[winner] && qu.firstOn(winner) != name {
		// Another cluster scores better for the request, but an earlier request fits there, so the
		// earlier request is served instead. The recursion ends, because each call leads to an
		// earlier request.
		return qu.serveNextOn(winner)
	}
	return true, qu.grantPlacement(r, winner, qu.s.decider.explainChoice(request, q.Target))
}

// firstOn returns the name of the first waiting reservation that fits on a cluster, "" if there is none.
func (qu *queueing) firstOn(clusterID string) string {
	return qu.line.First(qu.s.preemption.openCapacity(qu.s.book.Cluster(clusterID)), func(name string) bool {
		return qu.fitsOn(clusterID, qu.s.book.Reservation(name))
	})
}

// fitsOn reports whether a cluster could serve a waiting reservation now.
func (qu *queueing) fitsOn(clusterID string, r *ledger.Reservation) bool {
	q, tried := qu.s.requestAndTried(r)
	if q.Target != "" && q.Target != clusterID || qu.s.reservations.checkRequester(q.Requester) != nil {
		return false
	}
	_, ok := decision.Check(qu.s.market, qu.s.decider.newDecisionRequest(q, tried), clusterID)
	return ok
}

func (qu *queueing) grantPlacement(r *ledger.Reservation, provider string, why explained) error {
	held := r.Waiting.Left
	if held == 0 {
		held = lease
	}
	waited := qu.s.now().Sub(r.Waiting.Since)
	err := qu.s.record(ledger.Event{Change: &ledger.Grant{
		Name: r.Name, Provider: provider, Until: qu.s.now().Add(held), Explanation: why.text,
		Price: qu.s.decider.lockPrice(provider, &r.Request, &why),
	}})
	if err == nil {
		qu.s.log.Info(fmt.Sprintf("%s reserved from %s", r.Requester, provider), "reservation", r.Name, "requester", r.Requester,
			"target", provider, "resources", r.Amounts.Describe(), "waited", waited.String())
	}
	return err
}

// awaitsOffer reports whether a new offer may let a waiting request fit, although it hardly differs
// from the recorded one: the cluster has more of some resource, or the free room on its nodes has
// changed.
func (qu *queueing) awaitsOffer(o *ledger.Offer) bool {
	if qu.line.Len() == 0 {
		return false
	}
	c := qu.s.book.Cluster(o.ClusterID)
	free := qu.s.book.LendableOf(o).Sub(o.Allocated).Sub(c.Claimed())
	more, moved := hasMore(qu.s.clusters.presenceOf(o.ClusterID).raw, free), !reflect.DeepEqual(c.Shapes, o.Shapes)
	return (more || moved) && qu.line.First(free, func(name string) bool {
		q, tried := qu.s.requestAndTried(qu.s.book.Reservation(name))
		return (more || q.NeedsShapes() || qu.s.clusters.offersTainted(o.ClusterID)) && q.Requester != o.ClusterID && (q.Target == "" || q.Target == o.ClusterID) && !slices.Contains(tried.Excluded, o.ClusterID)
	}) != ""
}

// wouldJump reports whether a new request, if it were granted on the cluster, would take capacity
// from a waiting request that has precedence.
func (qu *queueing) wouldJump(q *requests.Request, clusterID string) bool {
	priority := qu.s.config().PriorityLimits.Effective(q.Requester, q.Priority)
	return qu.line.FirstOf(priority, qu.s.preemption.openCapacity(qu.s.book.Cluster(clusterID)), func(name string) bool {
		return qu.fitsOn(clusterID, qu.s.book.Reservation(name))
	}) != ""
}

// timeOut ends a reservation that has waited for as long as it may.
func (qu *queueing) timeOut(r *ledger.Reservation) error {
	q, tried := qu.s.requestAndTried(r)
	why := qu.s.decider.explainRefusal(qu.s.decider.newDecisionRequest(q, tried), q)
	return qu.s.record(ledger.Event{By: ledger.Queueing, Change: &ledger.End{
		Name: r.Name, Reason: ledger.EndFailed, Explanation: ledger.Explain(why.Candidates, why.Rejected),
		Message: fmt.Sprintf("it waited %s in the queue, and %s", r.Waiting.Until.Sub(r.Waiting.Since).Round(time.Millisecond), why.Detail),
	}})
}

// QueueView describes a reservation's place in the queue, for display.
type QueueView struct {
	// Place is the place in the queue, counted from 1; Length is the length of the queue.
	Place, Length int
	Since, Until  time.Time
	Reason        v1.QueuePlaceReason
}

// viewOf returns a reservation's place in the queue, nil if it does not wait.
func (qu *queueing) viewOf(r *ledger.Reservation) *QueueView {
	w := r.Waiting
	if w == nil {
		return nil
	}
	v := &QueueView{
		Place: qu.line.Place(r.Name), Length: qu.line.Len(), Since: w.Since, Until: w.Until,
		Reason: v1.QueuePlaceReasonNoCandidate,
	}
	p := r.Current()
	switch {
	case w.Preemption != nil:
		v.Reason = v1.QueuePlaceReasonPreempting
	case p != nil && p.Withdrawn == ledger.Preempted:
		v.Reason = v1.QueuePlaceReasonPreempted
	case qu.isPaused():
		v.Reason = v1.QueuePlaceReasonQueuePaused
	}
	return v
}

// toQueuePlace returns a reservation's place in the queue in the type of the REST API, nil if it
// does not wait.
func (qu *queueing) toQueuePlace(r *ledger.Reservation) *v1.QueuePlace {
	v := qu.viewOf(r)
	if v == nil {
		return nil
	}
	return &v1.QueuePlace{
		Position: int32(v.Place), Since: v.Since, RemainingSeconds: max(v.Until.Sub(qu.s.now()), 0).Seconds(), Reason: v.Reason,
	}
}

// refreshAfter returns how long the requester should wait before it fetches its place in the queue
// again.
func (qu *queueing) refreshAfter(r *ledger.Reservation) time.Duration {
	if qu.line.Place(r.Name) <= FrontPlaces {
		return frontRefresh
	}
	return queueRefresh
}

// describeWait returns a text that says why the reservation waits.
func (qu *queueing) describeWait(r *ledger.Reservation) string {
	v := qu.viewOf(r)
	text := fmt.Sprintf("waits for capacity, place %d of %d", v.Place, v.Length)
	if qu.isPaused() {
		text += "; the broker's administrator has paused the queue"
	}
	switch v.Reason {
	case v1.QueuePlaceReasonPreempting:
		return text + "; " + qu.s.preemption.describeVictims(r)
	case v1.QueuePlaceReasonPreempted:
		text += "; a request of a higher priority took its capacity on " + r.Current().Provider
	}
	if p := r.Current(); p != nil && p.Withdrawn == ledger.Recalled {
		text += "; " + p.Provider + " has called its capacity back"
	} else if p != nil && p.Withdrawn == ledger.Drained {
		text += "; the broker's administrator has drained " + p.Provider
	}
	if r.Explanation == "" || qu.isPaused() {
		return text
	}
	return text + ": " + qu.s.decider.explainRejections(requests.Of(r), r.Explanation)
}
