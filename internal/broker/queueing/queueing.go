// Package queueing contains the requests that wait for capacity, and the reservations that may have to
// make room for them. Package queue decides their order, and which reservations make room.
package queueing

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/queue"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Config limits the queue.
type Config struct {
	// MaxLength is how many requests may wait.
	MaxLength int
	// Timeout is how long a request may wait if it does not set a time itself.
	Timeout time.Duration
	// Paused stops the broker from granting waiting requests. They keep their places, even beyond
	// their timeouts.
	Paused bool
}

const (
	// Refresh is how often a requester is asked to fetch its place in the queue. A requester
	// at one of the first places is asked every FrontRefresh, because these places change more
	// often. The broker reports a grant without being asked.
	Refresh      = time.Minute
	FrontRefresh = 10 * time.Second
	// FrontPlaces is the number of places in the queue whose requesters are asked every
	// FrontRefresh. The limit keeps the number of these calls low.
	FrontPlaces = 16
	// Due is the name of the deadline at which the broker serves waiting requests again.
	Due = "queue/"
	// TriedDue is the prefix of the names of the deadlines at which a waiting reservation may
	// return to a provider that failed it.
	TriedDue = "tried/"
)

// PreemptionConfig says whether waiting requests may displace other reservations.
type PreemptionConfig struct {
	// LowerPriority is true if reservations of a lower priority have to make room for waiting
	// requests.
	LowerPriority bool
	// Grace is the time between the notice and the end of the placement.
	Grace time.Duration
}

// Rules are what the configuration says about waiting requests.
type Rules struct {
	Config
	Preemption PreemptionConfig
	// Priorities are the highest priorities that clusters may use.
	Priorities requests.PriorityLimits
	// Headroom is the percentage of every cluster's lendable amounts that is kept free.
	Headroom int
}

// Session is what the queue needs of the broker's session.
type Session interface {
	term.Term
	Rules() Rules
	// NoteOutdated, NotePreemptable and IsFreed belong to the agenda.
	NoteOutdated(clusterID string)
	NotePreemptable(clusterID string)
	IsFreed(clusterID string) bool
	// SettledAt returns until when nothing may be decided, because the journal may have lost events;
	// zero if it may be decided now.
	SettledAt() time.Time
	CheckRequester(clusterID string) error
	// RecordPending records the pending offer of a cluster, and reports whether there was one.
	RecordPending(clusterID string) (bool, error)
	// FreeOf returns the amounts that can be granted on a cluster. Until undo is called, SupposeElastic
	// counts the nodes that clusters can create; undo is nil if there are none or they count already.
	FreeOf(c *ledger.Cluster) quantity.Amounts
	SupposeElastic() (undo func())
	// The decider. PickBest returns the target if there is one, and whether the provider can serve the
	// request.
	NewDecisionRequest(q *requests.Request, tried ledger.Tried) *decision.Request
	PickBest(request *decision.Request, target string) (string, bool)
	Explain(request *decision.Request, q *requests.Request, provider string) *term.Decision
	ExplainRefusal(q *requests.Request, tried ledger.Tried) *fault.Error
	ExplainRejections(q *requests.Request, why ledger.Explanation) string
}

// Queue manages the requests that wait for capacity, and makes reservations of a lower priority make
// room for them. Everything in it is computed from the book.
//
// A holder is a reservation that may be preempted. A victim has been given notice to make room. A
// preemptor is the waiting request for which the victims make room; its target is their provider.
type Queue struct {
	s       Session
	market  *decision.Market
	line    queue.Line
	holders holders
	// targets maps the name of each preemptor to its target.
	targets map[string]string
}

// New returns an empty Queue.
func New(s Session, market *decision.Market) *Queue {
	return &Queue{s: s, market: market, holders: newHolders(), targets: map[string]string{}}
}

// Len returns how many requests wait.
func (qu *Queue) Len() int { return qu.line.Len() }

// Waiting returns the waiting reservations in the order of service.
func (qu *Queue) Waiting() []*ledger.Reservation {
	out := make([]*ledger.Reservation, 0, qu.line.Len())
	qu.line.All(func(name string) bool { out = append(out, qu.s.Book().Reservation(name)); return true })
	return out
}

// ReservationChanged updates what is computed from a reservation: its place among the waiting
// requests, its target and whether it is a holder.
func (qu *Queue) ReservationChanged(r *ledger.Reservation) {
	qu.updatePlace(r)
	qu.updateTarget(r)
	qu.updateHolder(r)
}

// updatePlace takes a reservation out of the line and, if it waits, adds it again at its present place.
func (qu *Queue) updatePlace(r *ledger.Reservation) {
	qu.line.Remove(r.Name)
	if r.Waiting != nil {
		qu.s.SetDeadline(TriedDue+r.Name, r.Tried(qu.s.Now()).Next)
		rank := queue.Rank{Priority: qu.priorityOf(r), Position: r.Waiting.Position}
		qu.line.Add(queue.Waiter{ID: r.Name, Class: qu.classOf(r), Needs: r.Amounts, Rank: rank})
	}
}

// ApplyRules applies new rules, and lets waiting requests be tried on every cluster.
func (qu *Queue) ApplyRules() {
	for _, r := range qu.Waiting() {
		qu.ReservationChanged(r)
	}
	for _, r := range qu.holders.listHolders() {
		qu.updateHolder(r)
	}
	term.NoteAllFreed(qu.s)
}

// requestAndTried returns the request of a reservation, and the providers that it tried.
func (qu *Queue) requestAndTried(r *ledger.Reservation) (*requests.Request, ledger.Tried) {
	return requests.Of(r), r.Tried(qu.s.Now())
}

// priorityOf returns the priority that counts for a reservation under the current configuration.
func (qu *Queue) priorityOf(r *ledger.Reservation) int32 {
	return qu.s.Rules().Priorities.Effective(r.Requester, r.Priority)
}

// headroomOf returns the capacity that the administrator keeps free on a cluster. The ledger does
// not check it, so a larger headroom does not affect existing reservations.
func (qu *Queue) headroomOf(c *ledger.Cluster) quantity.Amounts {
	percent := int64(qu.s.Rules().Headroom)
	if percent == 0 {
		return nil
	}
	kept := quantity.Amounts{}
	for name, whole := range c.Lendable() {
		kept[name] = whole/100*percent + whole%100*percent/100
	}
	return kept
}

// CheckLength returns the refusal of a new request that would wait while the queue is full; why is the
// refusal that it would get otherwise.
func (qu *Queue) CheckLength(why *fault.Error) error {
	most := qu.s.Rules().MaxLength
	if qu.line.Len() < most {
		return nil
	}
	e := fault.New(fault.QueueFull, "%s; and the queue is full: %d requests wait, BrokerConfig.spec.queue.maxLength sets the maximum", why.Detail, most)
	e.RetryAfter, e.Candidates, e.Rejected = term.QueueFullRetry, why.Candidates, why.Rejected
	return e
}

// Enqueue puts a new request that no cluster can serve into the queue, as the given reservation.
func (qu *Queue) Enqueue(q *requests.Request, reserve *ledger.Reserve, why *fault.Error) error {
	err := qu.s.Record(ledger.Event{By: q.By, Change: &ledger.Enqueue{
		Request: reserve, Until: qu.s.Now().Add(qu.timeoutOf(q)), Explanation: ledger.Explain(why.Candidates, why.Rejected),
	}})
	if err != nil {
		return err
	}
	qu.s.Log().Info(q.Requester+" waits for capacity", "reservation", reserve.Name, "requester", q.Requester,
		"resources", q.Amounts.Describe(), "place", qu.line.Place(reserve.Name))
	_, err = qu.preemptFor(qu.s.Book().Reservation(reserve.Name))
	return err
}

// AwaitsOffer reports whether a new offer may let a waiting request fit, although it hardly differs
// from the recorded one: the cluster has more of some resource, or the free room on its nodes has
// changed. before is the capacity of the cluster that was not promised so far, and tainted is true if
// it offers nodes with taints.
func (qu *Queue) AwaitsOffer(o *ledger.Offer, before quantity.Amounts, tainted bool) bool {
	if qu.line.Len() == 0 {
		return false
	}
	c := qu.s.Book().Cluster(o.ClusterID)
	free := qu.s.Book().LendableOf(o).Sub(o.Allocated).Sub(c.Claimed())
	more, moved := free.HasMoreThan(before), !reflect.DeepEqual(c.Shapes, o.Shapes)
	return (more || moved) && qu.line.First(free, func(name string) bool {
		q, tried := qu.requestAndTried(qu.s.Book().Reservation(name))
		return (more || q.NeedsShapes() || tainted) && q.Requester != o.ClusterID && (q.Target == "" || q.Target == o.ClusterID) && !slices.Contains(tried.Excluded, o.ClusterID)
	}) != ""
}

// grantPlacement grants a waiting reservation the placement that a decision has chosen.
func (qu *Queue) grantPlacement(r *ledger.Reservation, d *term.Decision) error {
	held := r.Waiting.Left
	if held == 0 {
		held = term.Lease
	}
	waited := qu.s.Now().Sub(r.Waiting.Since)
	err := qu.s.Record(ledger.Event{Change: &ledger.Grant{
		Name: r.Name, Provider: d.Provider, Until: qu.s.Now().Add(held), Explanation: d.Explanation, Price: d.Price,
	}})
	if err == nil {
		qu.s.Log().Info(fmt.Sprintf("%s reserved from %s", r.Requester, d.Provider), "reservation", r.Name, "requester", r.Requester,
			"target", d.Provider, "resources", r.Amounts.Describe(), "waited", waited.String())
	}
	return err
}

// Observe notes what may now be granted to waiting requests.
func (qu *Queue) Observe(e term.Event) {
	r := e.Changed
	if _, exceeded := e.Change.(*ledger.Exceed); r == nil || exceeded {
		return
	}
	qu.NoteAffinity(&r.Reserve)
	switch e.Change.(type) {
	case *ledger.ProviderGone, *ledger.Withdraw, *ledger.End:
		for i := range r.Placements {
			if p := &r.Placements[i]; p.ProviderGone {
				// A preemptor that waited for this placement to end may be granted elsewhere, even
				// if this cluster has nothing free.
				qu.s.NoteFreed(p.Provider)
			}
		}
	case *ledger.Edit:
		if r.Waiting != nil {
			term.NoteAllFreed(qu.s) // there may be room for the new amounts
		}
	}
}

// classOf returns a text that is equal for two waiting reservations if the same clusters can serve
// them: they are one class, which the queue tests only once. A reservation with victims is a class
// of its own.
func (qu *Queue) classOf(r *ledger.Reservation) string {
	q, tried := qu.requestAndTried(r)
	q.Key, q.Tenant, q.Priority, q.Object, q.Queue, q.Wait = "", "", 0, nil, false, 0
	if q.Demands().Data == nil {
		// The duration only matters if there is data, whose one-time price is spread over it.
		q.Duration = 0
	}
	left := r.Waiting.Left
	if left > ledger.MaxReadyWithin {
		left = 0 // no new nodes are Ready too late
	}
	alone := ""
	if r.Waiting.Preemption != nil {
		alone = r.Name
	}
	text, err := json.Marshal(struct {
		Request *requests.Request
		Tried   []string
		Alone   string
		Left    time.Duration `json:",omitzero"`
	}{q, tried.Excluded, alone, left})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Requeue puts a reservation whose placement was given up into the queue.
func (qu *Queue) Requeue(r *ledger.Reservation, why *fault.Error) error {
	err := qu.s.Record(ledger.Event{Change: &ledger.Enqueue{
		Name: r.Name, Until: qu.s.Now().Add(qu.timeoutOf(requests.Of(r))), Explanation: ledger.Explain(why.Candidates, why.Rejected),
	}})
	if err != nil {
		return err
	}
	qu.s.Log().Info("reservation waits for capacity again", "reservation", r.Name, "requester", r.Requester, "from", r.Current().Provider,
		"why", r.Current().Withdrawn)
	_, err = qu.preemptFor(r)
	return err
}

// timeoutOf returns how long a request may wait.
func (qu *Queue) timeoutOf(q *requests.Request) time.Duration {
	if q.Wait != 0 {
		return q.Wait
	}
	return qu.s.Rules().Timeout
}

// EndExclusion lets the queue consider a waiting reservation for the providers that are no longer
// excluded.
func (qu *Queue) EndExclusion(name string) {
	r := qu.s.Book().Reservation(name)
	if r == nil || r.Waiting == nil {
		return
	}
	qu.updatePlace(r)
	tried := r.Tried(qu.s.Now())
	for i := range r.Placements {
		if id := r.Placements[i].Provider; !slices.Contains(tried.Excluded, id) {
			qu.s.NoteFreed(id)
		}
	}
}

// ServeNextOn grants the first waiting request that fits on a cluster, and reports whether there
// may be another one.
func (qu *Queue) ServeNextOn(clusterID string) (bool, error) {
	if served, err := qu.grantPreemptor(clusterID); served || err != nil {
		return served, err
	}
	name := qu.firstOn(clusterID)
	if served, err := qu.serveNewNodesOn(clusterID, name); served || err != nil {
		return served, err
	}
	return qu.serveRequest(name, clusterID)
}

// serveNewNodesOn grants the first waiting request that only fits on a cluster with nodes that the cluster
// creates, if it comes before the given one, which fits already; "" for none. If the request fits on
// existing nodes elsewhere, it is granted there.
func (qu *Queue) serveNewNodesOn(clusterID, before string) (bool, error) {
	if qu.line.Len() == 0 {
		return false, nil
	}
	undo := qu.s.SupposeElastic()
	if undo == nil {
		return false, nil
	}
	name := qu.firstOn(clusterID)
	undo()
	if name == "" || name == before || before != "" && qu.line.Place(before) < qu.line.Place(name) {
		return false, nil
	}
	q, tried := qu.requestAndTried(qu.s.Book().Reservation(name))
	if _, exists := qu.s.PickBest(qu.s.NewDecisionRequest(q, tried), q.Target); !exists {
		defer qu.s.SupposeElastic()()
	}
	return qu.serveRequest(name, clusterID)
}

// serveRequest grants a waiting request that fits on a cluster; "" for none. It reports whether there may be
// another one.
func (qu *Queue) serveRequest(name, clusterID string) (bool, error) {
	if name == "" {
		return false, nil
	}
	r := qu.s.Book().Reservation(name)
	q, tried := qu.requestAndTried(r)
	request := qu.s.NewDecisionRequest(q, tried)
	winner, ok := qu.s.PickBest(request, q.Target)
	if !ok {
		return false, nil
	}
	if refreshed, err := qu.s.RecordPending(winner); refreshed || err != nil {
		return true, err
	}
	if qu.s.IsFreed(winner) && qu.firstOn(winner) != name {
		// Another cluster scores better for the request, but an earlier request fits there, so the
		// earlier request is served instead. The recursion ends, because each call leads to an
		// earlier request.
		return qu.ServeNextOn(winner)
	}
	return true, qu.grantPlacement(r, qu.s.Explain(request, q, winner))
}

// firstOn returns the name of the first waiting reservation that fits on a cluster, "" if there is none.
func (qu *Queue) firstOn(clusterID string) string {
	return qu.line.First(qu.OpenCapacity(qu.s.Book().Cluster(clusterID)), func(name string) bool {
		return qu.fitsOn(clusterID, qu.s.Book().Reservation(name))
	})
}

// fitsOn reports whether a cluster could serve a waiting reservation now.
func (qu *Queue) fitsOn(clusterID string, r *ledger.Reservation) bool {
	q, tried := qu.requestAndTried(r)
	if q.Target != "" && q.Target != clusterID || qu.s.CheckRequester(q.Requester) != nil {
		return false
	}
	_, ok := decision.Check(qu.market, qu.s.NewDecisionRequest(q, tried), clusterID)
	return ok
}

// WouldJump reports whether a new request, if it were granted on the cluster, would take capacity
// from a waiting request that has precedence.
func (qu *Queue) WouldJump(q *requests.Request, clusterID string) bool {
	priority := qu.s.Rules().Priorities.Effective(q.Requester, q.Priority)
	return qu.line.FirstOf(priority, qu.OpenCapacity(qu.s.Book().Cluster(clusterID)), func(name string) bool {
		return qu.fitsOn(clusterID, qu.s.Book().Reservation(name))
	}) != ""
}

// TimeOut ends a reservation that has waited for as long as it may.
func (qu *Queue) TimeOut(r *ledger.Reservation) error {
	q, tried := qu.requestAndTried(r)
	why := qu.s.ExplainRefusal(q, tried)
	return qu.s.Record(ledger.Event{By: ledger.Queueing, Change: &ledger.End{
		Name: r.Name, Reason: ledger.EndFailed, Explanation: ledger.Explain(why.Candidates, why.Rejected),
		Message: fmt.Sprintf("it waited %s in the queue, and %s", r.Waiting.Until.Sub(r.Waiting.Since).Round(time.Millisecond), why.Detail),
	}})
}

// NoteAffinity tells the queue that any cluster may now serve a waiting request of the same
// requester, if an affinity or anti-affinity relates that request to this reservation.
func (qu *Queue) NoteAffinity(r *ledger.Reserve) {
	asked := r.Demands()
	_, anti := requests.Groups(asked.Constraints)
	if asked.Group == "" && len(anti) == 0 {
		return
	}
	qu.line.All(func(name string) bool {
		w := qu.s.Book().Reservation(name)
		waits := w.Demands()
		affinity, against := requests.Groups(waits.Constraints)
		related := slices.Contains(affinity, asked.Group) || slices.Contains(against, asked.Group) || slices.Contains(anti, waits.Group)
		if w.Requester != r.Requester || !related {
			return true
		}
		term.NoteAllFreed(qu.s)
		return false
	})
}
