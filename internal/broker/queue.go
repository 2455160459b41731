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
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// QueueConfig bounds the queue.
type QueueConfig struct {
	// MaxLength is how many may wait before no more are taken.
	MaxLength int
	// Timeout is how long a request waits that does not say.
	Timeout time.Duration
}

const (
	// queueFullRetry is when to ask again for a place in the queue.
	queueFullRetry = 30 * time.Second
	// queueRefresh is when a requester that waits may ask which place it has. What
	// becomes of its request it is told without asking.
	queueRefresh = time.Minute
	// queueDue marks the entry of deadlines after which the queue is looked at again.
	queueDue = "queue/"
)

// waiters is the queue of a term, and what may have changed for it. All of it follows
// from the ledger, but for grown: clusters that have more to give than when the queue
// was looked at last. While grown is empty nobody in the line can be served, so a new
// request that finds a place passes only those whom that place does not fit.
type waiters struct {
	line  queue.Line
	grown map[string]bool
	// stirred are clusters where those who wait may find victims whom they did not find
	// before.
	stirred map[string]bool
	// serving keeps wake from being entered again by what it does.
	serving bool
	// preempting is, by the reservation that waits, the provider on which others make
	// room for it.
	preempting map[string]string
}

func newWaiters() waiters {
	return waiters{grown: map[string]bool{}, stirred: map[string]bool{}, preempting: map[string]string{}}
}

// mayReturn are the reasons to leave a provider that may be asked again.
var mayReturn = []string{ledger.Preempted, ledger.ProviderLost, ledger.ProviderBack}

// again is what a reservation in the book asks for, and the clusters that it need not
// ask again: they gave it up, other than for one of a higher priority or for having been
// silent.
func again(r *ledger.Reservation) (*Request, []string) {
	var tried []string
	for i := range r.Placements {
		if p := &r.Placements[i]; !slices.Contains(mayReturn, p.Withdrawn) {
			tried = append(tried, p.Provider)
		}
	}
	return askedFor(r), tried
}

// classOf is everything on which it depends which clusters can serve a reservation.
// One for whom others make room is a class of its own.
func classOf(r *ledger.Reservation) string {
	q, tried := again(r)
	q.Key, q.Tenant, q.Priority, q.Object, q.Queue, q.Wait = "", "", 0, nil, false, 0
	if q.Data == nil {
		// Else what is paid once counts as a part of every hour.
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

// enqueue lets a new request wait that no cluster can hold, for the reason given.
func (t *term) enqueue(q *Request, why *fault.Error) (*ledger.Reservation, error) {
	if most := t.b.config.Queue.MaxLength; t.waiters.line.Len() >= most {
		e := fault.New(fault.QueueFull, "%s; and the queue is full: %d requests wait, the most is set by BrokerConfig.spec.queue.maxLength", why.Detail, most)
		e.RetryAfter, e.Candidates, e.Rejected = queueFullRetry, why.Candidates, why.Rejected
		return nil, e
	}
	if err := t.mayWait(q); err != nil {
		return nil, err
	}
	reserve := t.reserveOf(q, "res-")
	err := t.record(ledger.Event{Change: &ledger.Enqueue{
		Request: reserve, Until: t.now().Add(t.patienceOf(q)), Explanation: explanationOf(why),
	}})
	if err != nil {
		return nil, err
	}
	t.b.opts.Log.Info(q.Requester+" waits for capacity", "reservation", reserve.Name, "requester", q.Requester,
		"resources", describe(q.Amounts), "place", t.waiters.line.Place(reserve.Name))
	r := t.state.Reservation(reserve.Name)
	_, err = t.preempt(r)
	return r, err
}

// requeue lets a reservation wait whose placement was given up.
func (t *term) requeue(r *ledger.Reservation, why *fault.Error) error {
	err := t.record(ledger.Event{Change: &ledger.Enqueue{
		Name: r.Name, Until: t.now().Add(t.patienceOf(askedFor(r))), Explanation: explanationOf(why),
	}})
	if err != nil {
		return err
	}
	t.b.opts.Log.Info("reservation waits for capacity again", "reservation", r.Name, "requester", r.Requester, "from", r.Current().Provider,
		"why", r.Current().Withdrawn)
	_, err = t.preempt(r)
	return err
}

func (t *term) patienceOf(q *Request) time.Duration {
	if q.Wait != 0 {
		return q.Wait
	}
	return t.b.config.Queue.Timeout
}

func explanationOf(why *fault.Error) ledger.Explanation {
	candidates := make([]ledger.Candidate, len(why.Candidates))
	for i, c := range why.Candidates {
		candidates[i] = ledger.Candidate{
			ClusterID: c.ClusterID, Score: c.Score, Criteria: c.Criteria, Reason: c.Reason, Message: c.Message,
			PricePerHour: c.PricePerHour, Currency: c.Currency,
		}
	}
	return ledger.Explain(candidates, why.Rejected)
}

// lineUp brings the line in step with a reservation that changed.
func (t *term) lineUp(r *ledger.Reservation) {
	t.waiters.line.Remove(r.Name)
	if r.Waiting != nil {
		rank := queue.Rank{Priority: t.priority(r), Position: r.Waiting.Position}
		t.waiters.line.Add(queue.Waiter{ID: r.Name, Class: classOf(r), Needs: r.Amounts, Rank: rank})
	}
	t.earmark(r)
}

// reconsider is for a new configuration: priorities, who may preempt, who takes part and
// what is kept back may be others.
func (t *term) reconsider() {
	var names []string
	t.waiters.line.All(func(name string) bool { names = append(names, name); return true })
	for _, name := range names {
		t.lineUp(t.state.Reservation(name))
	}
	for _, r := range t.holders.all() {
		t.noteHolder(r)
	}
	t.state.Clusters(func(c *ledger.Cluster) {
		t.market.SetAvailable(c.ClusterID, t.offers(c))
		t.grew(c.ClusterID)
	})
}

// grew notes that a cluster may serve somebody whom it could not serve before.
func (t *term) grew(clusterID string) {
	t.waiters.grown[clusterID], t.waiters.stirred[clusterID] = true, true
	t.hurryHealing()
}

// allGrew is for who may be served by any cluster now.
func (t *term) allGrew() {
	t.state.Clusters(func(c *ledger.Cluster) { t.grew(c.ClusterID) })
}

// offers notes what a cluster has for others; where it is more than before, those who
// wait may be served. Where it promised more than it has, less of that counts as well:
// fewer have to make room.
func (t *term) offers(c *ledger.Cluster) quantity.Amounts {
	p, free := t.presenceOf(c.ClusterID), t.free(c)
	raw := c.Lendable().Sub(c.Allocated).Sub(c.Claimed())
	if grew(p.raw, raw) || grew(p.free, free) {
		t.grew(c.ClusterID)
	}
	p.raw, p.free = raw, free
	return free
}

func grew(before, after quantity.Amounts) bool {
	for name, amount := range after {
		if amount > before[name] {
			return true
		}
	}
	return false
}

// wake serves those who wait from what clusters have more to give than before, then
// has others make room where that has become possible. What it costs grows with what
// changed and with how many are served, not with how many wait.
func (t *term) wake() {
	w := &t.waiters
	if w.serving || len(w.grown)+len(w.stirred) == 0 || !t.b.configured {
		return
	}
	if w.line.Len() == 0 {
		clear(w.grown)
		clear(w.stirred)
		return
	}
	if until := t.settling(); !until.IsZero() {
		// Who waits may have been granted in a part of the journal that is lost.
		t.due.set(queueDue, until)
		return
	}
	w.serving = true
	payer := t.payer
	t.payer = "" // what others get now is not for this member to answer for
	defer func() { w.serving, t.payer = false, payer }()
	for len(w.grown)+len(w.stirred) > 0 {
		from, turn := w.grown, t.serve
		if len(from) == 0 {
			from, turn = w.stirred, t.preemptOn
		}
		id := slices.Min(slices.Collect(maps.Keys(from)))
		more, err := turn(id)
		if err != nil {
			t.b.opts.Log.Error(err, "who waits could not be served; trying again", "cluster", id)
			t.due.set(queueDue, t.now().Add(reopenDelay))
			return
		}
		if !more {
			delete(from, id)
		}
	}
}

// serve gives the first one in the line for whom a cluster has room its place, and
// says whether there may be more to serve.
func (t *term) serve(clusterID string) (bool, error) {
	if served, err := t.servePreemptor(clusterID); served || err != nil {
		return served, err
	}
	name := t.firstOn(clusterID)
	if name == "" {
		return false, nil
	}
	r := t.state.Reservation(name)
	q, tried := again(r)
	request := t.sought(q, tried)
	winner, ok := t.pick(request, q.Target)
	if !ok {
		return false, nil
	}
	if refreshed, err := t.refresh(winner); refreshed || err != nil {
		return true, err
	}
	if t.waiters.grown[winner] && t.firstOn(winner) != name {
		// It would do better elsewhere, with what comes to others first. Each of them came
		// before the one that it passes, so this comes to an end.
		return t.serve(winner)
	}
	return true, t.grant(r, winner, t.explain(request, q.Target))
}

// firstOn is the first one in the line for whom a cluster has room, "" if there is none.
func (t *term) firstOn(clusterID string) string {
	return t.waiters.line.First(t.free(t.state.Cluster(clusterID)), func(name string) bool {
		return t.serves(clusterID, t.state.Reservation(name))
	})
}

// serves is whether a cluster could take a reservation that waits now.
func (t *term) serves(clusterID string, r *ledger.Reservation) bool {
	q, tried := again(r)
	if q.Target != "" && q.Target != clusterID || t.checkRequester(q.Requester) != nil {
		return false
	}
	_, ok := decision.Check(t.market, t.sought(q, tried), clusterID)
	return ok
}

func (t *term) grant(r *ledger.Reservation, provider string, why ledger.Explanation) error {
	held := r.Waiting.Left
	if held == 0 {
		held = lease
	}
	waited := t.now().Sub(r.Waiting.Since)
	err := t.record(ledger.Event{Change: &ledger.Grant{
		Name: r.Name, Provider: provider, Until: t.now().Add(held), Explanation: why,
	}})
	if err == nil {
		t.b.opts.Log.Info(fmt.Sprintf("%s reserved from %s", r.Requester, provider), "reservation", r.Name, "requester", r.Requester,
			"target", provider, "resources", describe(r.Amounts), "waited", waited.String())
	}
	return err
}

// isAwaited is whether an offer that differs little from the recorded one has room for
// somebody who waits: more of it, or on its nodes.
func (t *term) isAwaited(o *ledger.Offer) bool {
	if t.waiters.line.Len() == 0 {
		return false
	}
	c := t.state.Cluster(o.ClusterID)
	free := t.state.LendableOf(o).Sub(o.Allocated).Sub(c.Claimed())
	more, moved := grew(t.presenceOf(o.ClusterID).raw, free), !reflect.DeepEqual(c.Shapes, o.Shapes)
	return (more || moved) && t.waiters.line.First(free, func(name string) bool {
		q, tried := again(t.state.Reservation(name))
		return (more || needsShapes(q)) && q.Requester != o.ClusterID && (q.Target == "" || q.Target == o.ClusterID) && !slices.Contains(tried, o.ClusterID)
	}) != ""
}

// overtakes is whether a new request would take a place on a cluster for which another
// one waits that comes before it.
func (t *term) overtakes(q *Request, clusterID string) bool {
	priority := t.b.config.Ceilings.Effective(q.Requester, q.Priority)
	return t.waiters.line.FirstOf(priority, t.free(t.state.Cluster(clusterID)), func(name string) bool {
		return t.serves(clusterID, t.state.Reservation(name))
	}) != ""
}

// timeOut ends a reservation that has waited for as long as it may.
func (t *term) timeOut(r *ledger.Reservation) error {
	q, tried := again(r)
	why := t.whyNot(t.sought(q, tried), q)
	return t.record(ledger.Event{Change: &ledger.End{
		Name: r.Name, Reason: ledger.EndFailed, Explanation: explanationOf(why),
		Message: fmt.Sprintf("it waited %s in the queue, and %s", r.Waiting.Until.Sub(r.Waiting.Since).Round(time.Millisecond), why.Detail),
	}})
}

// QueueView is the place of a reservation that waits, for those who show it.
type QueueView struct {
	// Place in the line, from 1, of Length.
	Place, Length int
	Since, Until  time.Time
	Reason        v1.QueuePlaceReason
}

// queueView is nil for a reservation that does not wait.
func (t *term) queueView(r *ledger.Reservation) *QueueView {
	w := r.Waiting
	if w == nil {
		return nil
	}
	v := &QueueView{
		Place: t.waiters.line.Place(r.Name), Length: t.waiters.line.Len(), Since: w.Since, Until: w.Until,
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

// placeOf is queueView as agents are told.
func (t *term) placeOf(r *ledger.Reservation) *v1.QueuePlace {
	v := t.queueView(r)
	if v == nil {
		return nil
	}
	return &v1.QueuePlace{
		Position: int32(v.Place), Since: v.Since, RemainingSeconds: max(v.Until.Sub(t.now()), 0).Seconds(), Reason: v.Reason,
	}
}

// queueMessage says in words why a reservation waits.
func (t *term) queueMessage(r *ledger.Reservation) string {
	v := t.queueView(r)
	text := fmt.Sprintf("waits for capacity, place %d of %d", v.Place, v.Length)
	switch v.Reason {
	case v1.QueuePlaceReasonPreempting:
		return text + "; " + t.preemptionMessage(r)
	case v1.QueuePlaceReasonPreempted:
		text += "; a request of a higher priority took its place on " + r.Current().Provider
	}
	if p := r.Current(); p != nil && p.Withdrawn == ledger.Recalled {
		text += "; " + p.Provider + " has called its place back"
	}
	if r.Explanation == "" {
		return text
	}
	return text + ": " + t.reasonsOf(askedFor(r), r.Explanation)
}

// Waiting is how many requests wait for capacity.
func (b *Broker) Waiting() float64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.term == nil {
		return 0
	}
	return float64(b.term.waiters.line.Len())
}
