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
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// QueueConfig bounds the queue.
type QueueConfig struct {
	// MaxLength bounds the number of waiting requests.
	MaxLength int
	// Timeout is how long a request waits that sets no timeout.
	Timeout time.Duration
}

const (
	// queueFullRetry is when to ask again for a place in the queue.
	queueFullRetry = 30 * time.Second
	// queueRefresh is how often a requester may ask for its place in the queue. The broker
	// reports the outcome unasked.
	queueRefresh = time.Minute
	// queueDue names the deadline at which the broker serves the queue again.
	queueDue = "queue/"
	// triedDue prefixes the deadlines at which waiting reservations may return to a provider
	// that failed them.
	triedDue = "tried/"
)

// queueing holds the requests that wait for capacity. All its state follows from the ledger,
// except freed.
type queueing struct {
	s     *session
	line  queue.Line
	freed map[string]bool
	// serving prevents serve from calling itself through its own grants.
	serving bool
}

func newQueueing(s *session) queueing { return queueing{s: s, freed: map[string]bool{}} }

func (qu *queueing) observe(e event) {
	r := e.changed
	if _, exceeded := e.Change.(*ledger.Exceed); r == nil || exceeded {
		return
	}
	qu.noteAffinity(&r.Reserve)
	switch e.Change.(type) {
	case *ledger.ProviderGone, *ledger.Withdraw, *ledger.End:
		for i := range r.Placements {
			if p := &r.Placements[i]; p.ProviderGone {
				// A request that waited for this one to leave the cluster may be granted
				// elsewhere, even if nothing is free here.
				qu.noteFreed(p.Provider)
			}
		}
	case *ledger.Edit:
		if r.Waiting != nil {
			qu.noteAllFreed() // there may be room for the new amounts
		}
	}
}

// requestAndTried returns the request of a reservation and the providers that it must not try
// now, see ledger.Reservation.Excluded.
func (s *session) requestAndTried(r *ledger.Reservation) (*Request, []string) {
	tried, _ := r.Excluded(s.now())
	return requestOf(r), tried
}

// classOf returns a key of everything that decides which clusters can serve a reservation.
// Waiting requests of one class are tried together. A reservation with victims has a class of
// its own.
func (qu *queueing) classOf(r *ledger.Reservation) string {
	q, tried := qu.s.requestAndTried(r)
	q.Key, q.Tenant, q.Priority, q.Object, q.Queue, q.Wait = "", "", 0, nil, false, 0
	if q.Demands().Data == nil {
		// Duration matters only with data: the one-time price of data is spread over it.
		q.Duration = 0
	}
	alone := ""
	if r.Waiting.Preemption != nil {
		alone = r.Name
	}
	text, err := json.Marshal(struct {
		Request *Request
		Tried   []string
		Alone   string
	}{q, tried, alone})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// enqueueRequest queues a new request that no cluster can hold; why is the reason.
func (qu *queueing) enqueueRequest(q *Request, why *fault.Error) (*ledger.Reservation, error) {
	if most := qu.s.config().Queue.MaxLength; qu.line.Len() >= most {
		e := fault.New(fault.QueueFull, "%s; and the queue is full: %d requests wait, BrokerConfig.spec.queue.maxLength sets the maximum", why.Detail, most)
		e.RetryAfter, e.Candidates, e.Rejected = queueFullRetry, why.Candidates, why.Rejected
		return nil, e
	}
	if err := qu.s.accounts.checkWaiting(q); err != nil {
		return nil, err
	}
	reserve := qu.s.reservations.newReserve(q, "res-")
	err := qu.s.record(ledger.Event{Change: &ledger.Enqueue{
		Request: reserve, Until: qu.s.now().Add(qu.timeoutOf(q)), Explanation: ledger.Explain(why.Candidates, why.Rejected),
	}})
	if err != nil {
		return nil, err
	}
	qu.s.log.Info(q.Requester+" waits for capacity", "reservation", reserve.Name, "requester", q.Requester,
		"resources", describeAmounts(q.Amounts), "place", qu.line.Place(reserve.Name))
	r := qu.s.book.Reservation(reserve.Name)
	_, err = qu.s.preemption.preemptFor(r)
	return r, err
}

// requeueReservation queues a reservation whose placement was withdrawn.
func (qu *queueing) requeueReservation(r *ledger.Reservation, why *fault.Error) error {
	err := qu.s.record(ledger.Event{Change: &ledger.Enqueue{
		Name: r.Name, Until: qu.s.now().Add(qu.timeoutOf(requestOf(r))), Explanation: ledger.Explain(why.Candidates, why.Rejected),
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
func (qu *queueing) timeoutOf(q *Request) time.Duration {
	if q.Wait != 0 {
		return q.Wait
	}
	return qu.s.config().Queue.Timeout
}

// reservationChanged moves a reservation to its place in the line, or out of it.
func (qu *queueing) reservationChanged(r *ledger.Reservation) {
	qu.line.Remove(r.Name)
	if r.Waiting != nil {
		_, next := r.Excluded(qu.s.now())
		qu.s.deadlines.setDeadline(triedDue+r.Name, next)
		rank := queue.Rank{Priority: qu.s.priorityOf(r), Position: r.Waiting.Position}
		qu.line.Add(queue.Waiter{ID: r.Name, Class: qu.classOf(r), Needs: r.Amounts, Rank: rank})
	}
}

// endExclusion offers a waiting reservation to the providers that it may try again.
func (qu *queueing) endExclusion(name string) {
	r := qu.s.book.Reservation(name)
	if r == nil || r.Waiting == nil {
		return
	}
	qu.reservationChanged(r)
	_, tried := qu.s.requestAndTried(r)
	for i := range r.Placements {
		if id := r.Placements[i].Provider; !slices.Contains(tried, id) {
			qu.noteFreed(id)
		}
	}
}

// applyConfig applies a new configuration. It may change priorities, preemption, admission of
// clusters, and headroom.
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

// noteFreed notes that a cluster may now serve a request that it could not serve before.
func (qu *queueing) noteFreed(clusterID string) {
	qu.freed[clusterID] = true
	qu.s.preemption.noteVictims(clusterID)
	qu.s.healing.retrySoon()
}

// noteAllFreed notes that any cluster may now serve a waiting request.
func (qu *queueing) noteAllFreed() {
	qu.s.book.Clusters(func(c *ledger.Cluster) { qu.noteFreed(c.ClusterID) })
}

// serveWaiting grants freed capacity to waiting requests, then preempts where that became possible.
// Its cost depends on the changes and on the requests it serves, not on the number of waiting
// requests.
//
// A grant is an event, and observers of events note freed capacity. So serveWaiting loops until no
// freed capacity is left, and does nothing if it is called while it runs.
func (qu *queueing) serveWaiting() {
	if qu.serving || !qu.mayServe() {
		return
	}
	qu.serving = true
	defer func() { qu.serving = false }()
	defer qu.s.accounts.pauseCharging()() // the grants of others are not charged to the caller
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

// mayServe reports whether a waiting request could be served now.
func (qu *queueing) mayServe() bool {
	if len(qu.freed)+len(qu.s.preemption.stirred) == 0 || !qu.s.b.configured {
		return false
	}
	if qu.line.Len() == 0 {
		clear(qu.freed)
		clear(qu.s.preemption.stirred)
		return false
	}
	if until := qu.s.recovery.recoveryDeadline(); !until.IsZero() {
		// The waiting request may have been granted in a lost part of the journal.
		qu.s.deadlines.setDeadline(queueDue, until)
		return false
	}
	return true
}

// serveNextOn grants the first waiting request that fits a cluster, and reports whether there
// may be another such request.
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
		// The request would do better on another cluster, where an earlier one comes first.
		// That one is served instead. Each recursion leads to an earlier request, so it ends.
		return qu.serveNextOn(winner)
	}
	return true, qu.grantPlacement(r, winner, qu.s.decider.explainChoice(request, q.Target))
}

// firstOn returns the first waiting request that fits a cluster, "" if none does.
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

func (qu *queueing) grantPlacement(r *ledger.Reservation, provider string, why ledger.Explanation) error {
	held := r.Waiting.Left
	if held == 0 {
		held = lease
	}
	waited := qu.s.now().Sub(r.Waiting.Since)
	err := qu.s.record(ledger.Event{Change: &ledger.Grant{
		Name: r.Name, Provider: provider, Until: qu.s.now().Add(held), Explanation: why,
	}})
	if err == nil {
		qu.s.log.Info(fmt.Sprintf("%s reserved from %s", r.Requester, provider), "reservation", r.Name, "requester", r.Requester,
			"target", provider, "resources", describeAmounts(r.Amounts), "waited", waited.String())
	}
	return err
}

// awaitsOffer reports whether a waiting request might fit an offer that hardly differs from the
// recorded one: it has more of some resource, or free room on other nodes.
func (qu *queueing) awaitsOffer(o *ledger.Offer) bool {
	if qu.line.Len() == 0 {
		return false
	}
	c := qu.s.book.Cluster(o.ClusterID)
	free := qu.s.book.LendableOf(o).Sub(o.Allocated).Sub(c.Claimed())
	more, moved := hasMore(qu.s.clusters.presenceOf(o.ClusterID).raw, free), !reflect.DeepEqual(c.Shapes, o.Shapes)
	return (more || moved) && qu.line.First(free, func(name string) bool {
		q, tried := qu.s.requestAndTried(qu.s.book.Reservation(name))
		return (more || needsShapes(q) || qu.s.clusters.offersTainted(o.ClusterID)) && q.Requester != o.ClusterID && (q.Target == "" || q.Target == o.ClusterID) && !slices.Contains(tried, o.ClusterID)
	}) != ""
}

// wouldJump reports whether a new request would take capacity on a cluster before a waiting
// request that has precedence.
func (qu *queueing) wouldJump(q *Request, clusterID string) bool {
	priority := qu.s.config().PriorityLimits.Effective(q.Requester, q.Priority)
	return qu.line.FirstOf(priority, qu.s.preemption.openCapacity(qu.s.book.Cluster(clusterID)), func(name string) bool {
		return qu.fitsOn(clusterID, qu.s.book.Reservation(name))
	}) != ""
}

// timeOut ends a reservation that has reached its queue timeout.
func (qu *queueing) timeOut(r *ledger.Reservation) error {
	q, tried := qu.s.requestAndTried(r)
	why := qu.s.decider.explainRefusal(qu.s.decider.newDecisionRequest(q, tried), q)
	return qu.s.record(ledger.Event{Change: &ledger.End{
		Name: r.Name, Reason: ledger.EndFailed, Explanation: ledger.Explain(why.Candidates, why.Rejected),
		Message: fmt.Sprintf("it waited %s in the queue, and %s", r.Waiting.Until.Sub(r.Waiting.Since).Round(time.Millisecond), why.Detail),
	}})
}

// QueueView is the displayed place of a waiting reservation.
type QueueView struct {
	// Place is its place in the line of Length requests, counted from 1.
	Place, Length int
	Since, Until  time.Time
	Reason        v1.QueuePlaceReason
}

// viewOf returns the place of a reservation in the queue, nil if it does not wait.
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
	}
	return v
}

// toQueuePlace converts the view to the REST type.
func (qu *queueing) toQueuePlace(r *ledger.Reservation) *v1.QueuePlace {
	v := qu.viewOf(r)
	if v == nil {
		return nil
	}
	return &v1.QueuePlace{
		Position: int32(v.Place), Since: v.Since, RemainingSeconds: max(v.Until.Sub(qu.s.now()), 0).Seconds(), Reason: v.Reason,
	}
}

// describeWait explains why a reservation waits.
func (qu *queueing) describeWait(r *ledger.Reservation) string {
	v := qu.viewOf(r)
	text := fmt.Sprintf("waits for capacity, place %d of %d", v.Place, v.Length)
	switch v.Reason {
	case v1.QueuePlaceReasonPreempting:
		return text + "; " + qu.s.preemption.describeVictims(r)
	case v1.QueuePlaceReasonPreempted:
		text += "; a request of a higher priority took its capacity on " + r.Current().Provider
	}
	if p := r.Current(); p != nil && p.Withdrawn == ledger.Recalled {
		text += "; " + p.Provider + " has called its capacity back"
	}
	if r.Explanation == "" {
		return text
	}
	return text + ": " + qu.s.decider.explainRejections(requestOf(r), r.Explanation)
}

// Waiting returns the number of requests that wait for capacity.
func (b *Broker) Waiting() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return 0
	}
	return float64(b.session.queue.line.Len())
}
