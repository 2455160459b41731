package broker

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// oracle is the combined knowledge of all clusters of a simulation: their capacity, their
// promises and the placements they have taken down. It recounts everything for each question,
// and shares no rule with decision, ledger and broker.
type oracle struct {
	lenders map[string]*lender
	// told holds all reservations that the broker has not forgotten.
	told map[string]*told
	// pledges holds the quotes held by lenders, oldest first.
	pledges []*pledge
	// keys holds the keys in use, and shut those that were released before their use.
	keys map[keyOf]string
	shut map[keyOf]bool
	// stays counts the stays in the queue, earlier those that began before this step.
	stays, earlier int
	rules          rules
	// pending holds the reservations whose change in this step the oracle has not examined yet.
	pending map[string]bool
	// left maps a lender to the latest journal position of this step at which a placement left the
	// lender, or a preemptor stopped waiting for it.
	left map[string]uint64
	// shutWays holds when a cluster last reported that it cannot reach another one.
	shutWays map[way]time.Time
	// delivered has the lenders that delivered a placement in this step.
	delivered map[string]bool
	// forgot is the cluster that was forgotten in this step, "" for none.
	forgot string
	// onNewNodes counts the placements for which a lender had to create nodes.
	onNewNodes int
	// suspended holds the blocked pairs after this step, before those after the previous one.
	suspended, before suspensions
}

type keyOf struct{ requester, key string }

// lender is one cluster according to its own advertisement.
type lender struct {
	amounts quantity.Amounts
	// price is what the lender charges for a core and hour in EUR; 0 if it names no price.
	price int64
	// own is the sum of the requests of the cluster's own pods.
	own   quantity.Amounts
	nodes offeredNodes
	// created are the nodes that it can create.
	created newNodes
	used    map[string]quantity.Amounts
	// recalls holds the ends of the lender's recalls, by placement name.
	recalls map[string]time.Time
	// unheard holds recalls that take effect only when repeated: they were reported while the
	// other of two placements was recalled.
	unheard map[string]bool
	// agent is true if the cluster ever had an agent.
	agent bool
	// since is when its agent was first heard, heard when it was last heard.
	since, heard    time.Time
	epoch, sequence int64
}

// told is a reservation as the clusters know it.
type told struct {
	keyOf
	name string
	// amounts are the amounts agreed last.
	amounts  quantity.Amounts
	request  *v1.ReservationRequest
	duration time.Duration
	// patient is true if the reservation waits for a silent provider instead of moving.
	patient bool
	// change is a change of amounts that a provider has not answered; nil if there is none.
	change *unanswered
	// generation is the generation of the last accepted change.
	generation int64
	// changedBy is the user who made the last accepted change.
	changedBy string
	// granted is when the reservation got its first placement.
	granted time.Time
	// until is the end of a reservation with a duration. A reservation without one is renewed by
	// each request for it; asked is when the last one was made. Neither applies while it waits.
	until, asked time.Time
	// waiting is the reservation's stay in the queue, notice the notice that it has; nil for none.
	waiting *stay
	notice  *ledger.Notice
	// recall is the recall that the broker applies; nil for none.
	recall *ledger.CallBack
	// toldNow is true if the reservation got a notice in this step, preemptsNow if its victims got
	// one.
	toldNow, preemptsNow bool
	ended                ledger.EndReason
	endedAt              time.Time
	// closed is true if the reservation was Released or Failed before this step.
	closed     bool
	placements []promise
	// creation is the time in which a provider creates nodes for a placement, nil for none.
	creation *creation
	// left is the index of the placement that was given up last before the reservation ended.
	left int
	// taken is true if the capacity of its first placement was held for a quote, which is pledge.
	taken  bool
	pledge *pledge
	// idle is the idle time that the requester was told, nil for none. idleTold is when the
	// requester was last told that the reservation is idle, or that it no longer is.
	idle     *ledger.IdleTime
	idleTold time.Time
}

// promise is a placement. Its provider holds capacity for the placement until the placement is
// gone.
type promise struct {
	provider string
	// price is the agreed price of a core in EUR, 0 for none.
	price int64
	// amounts are the amounts that the provider reported to hold. If the placement was given up
	// before the provider answered a change, they are the most that the provider may hold.
	amounts quantity.Amounts
	// assigned is when it was granted.
	assigned     time.Time
	acknowledged bool
	// ackedAt is when the provider acknowledged the placement. connecting is when the requester
	// reported that only the network is missing; zero if the report had no effect.
	ackedAt, connecting time.Time
	// served is true if its node was ever Ready, ready if it is Ready. unready is since when the
	// node is no longer Ready; zero if it is Ready or never was.
	served, ready bool
	unready       time.Time
	// outage is since when the node was not Ready before it became Ready again, at readyAt.
	outage, readyAt time.Time
	givenUp         bool
	// reason is why the placement was given up, at is when.
	reason string
	at     time.Time
	gone   bool
	// idle is what the clusters have reported about the use of the placement.
	idle idleWord
}

func newOracle() *oracle {
	return &oracle{rules: rules{preempts: true, limits: map[string]int32{}}, pending: map[string]bool{}, left: map[string]uint64{}, delivered: map[string]bool{}, shutWays: map[way]time.Time{}, lenders: map[string]*lender{}, told: map[string]*told{}, keys: map[keyOf]string{}, shut: map[keyOf]bool{}}
}

// promised returns the amount of a resource that is not free at a lender, because it is held for
// placements or quotes or is reported to be in use.
func (o *oracle) promised(id string, resource corev1.ResourceName) int64 {
	sum := o.pledged(id, resource)
	counted := map[string]bool{}
	for _, r := range o.told {
		for i, p := range r.placements {
			if p.provider == id && !p.gone {
				counted[brokerv1alpha1.PlacementName(r.name, int32(i+1))] = true
				sum += o.claims(r, i, resource)
			}
		}
	}
	for name, used := range o.lenders[id].used {
		if !counted[name] {
			sum += used[resource]
		}
	}
	return sum
}

// claims returns the larger of the amounts that a placement holds and uses.
func (o *oracle) claims(r *told, placement int, resource corev1.ResourceName) int64 {
	used := o.lenders[r.placements[placement].provider].used[brokerv1alpha1.PlacementName(r.name, int32(placement+1))]
	return max(r.mayKeep(placement, resource), used[resource])
}

func (o *oracle) free(id string, resource corev1.ResourceName) int64 {
	l := o.lenders[id]
	return max(l.amounts[resource]-l.own[resource]-o.promised(id, resource), 0)
}

// fits reports whether a lender has room for amounts in addition to all its promises.
func (o *oracle) fits(id string, amounts quantity.Amounts) bool {
	for resource, want := range amounts {
		if want > o.free(id, resource) {
			return false
		}
	}
	return true
}

// lends reports whether a lender may be chosen: its agent was heard recently, or it never had one.
func (o *oracle) lends(id string, now time.Time) bool {
	l := o.lenders[id]
	if l.agent {
		return now.Sub(l.heard) < 90*time.Second
	}
	return true
}

// candidates returns the lenders, in any order, that have room and may provide for a requester now.
func (o *oracle) candidates(requester string, now time.Time, hasRoom func(id string) bool) []string {
	var out []string
	for id := range o.lenders {
		if _, cordoned := o.rules.drains[id]; !cordoned && id != requester && o.lends(id, now) && o.reaches(requester, id, now) && !o.suspended.keep(requester, id) && hasRoom(id) {
			out = append(out, id)
		}
	}
	return out
}

// affords reports whether amounts of a lender cost at most what the request accepts. If the request
// has a limit, a lender that leaves a resource without a price exceeds it.
func (o *oracle) affords(request *v1.ReservationRequest, id string, amounts quantity.Amounts) bool {
	if request.Constraints == nil || request.Constraints.MaxPrice == nil {
		return true
	}
	most, _ := strconv.ParseInt(string(request.Constraints.MaxPrice.Amount), 10, 64) // anyRequest has written this text, so it is a number
	price := o.lenders[id].price
	return price > 0 && o.lenders[id].pricesMemory() && price*amounts[corev1.ResourceCPU] <= most*1000
}

// able returns the lenders, in any order, that may serve a request now: if none has room on existing nodes, those that
// can create nodes.
func (o *oracle) able(requester string, request *v1.ReservationRequest, now time.Time) []string {
	amounts := amountsOf(request.Resources)
	among := func(hasRoom func(id string) bool) []string {
		return slices.DeleteFunc(o.candidates(requester, now, hasRoom), func(id string) bool {
			return request.TargetClusterID != "" && request.TargetClusterID != id || !o.affords(request, id, amounts) || !o.suits(request, id)
		})
	}
	if exists := among(func(id string) bool { return o.takes(id, amounts, nil) }); len(exists) > 0 {
		return exists
	}
	left := time.Duration(request.DurationSeconds) * time.Second
	return among(func(id string) bool { return o.creates(id, amounts, left) })
}

// epochOf returns the epoch of a cluster's newest advertisement, 1 if the broker knows none.
func (o *oracle) epochOf(id string) int64 {
	if known := o.lenders[id]; known != nil && known.epoch > 0 {
		return known.epoch
	}
	return 1
}

// order returns the epoch that an advertisement should get, and whether it is newer than the
// newest one (positive), the same one again (0) or older (negative).
func (o *oracle) order(adv *v1.Advertisement) (epoch int64, newer int) {
	var known lender
	if l := o.lenders[adv.ClusterID]; l != nil {
		known = *l
	}
	if adv.Epoch == 0 {
		return known.epoch + 1, 1
	}
	return adv.Epoch, cmp.Or(cmp.Compare(adv.Epoch, known.epoch), cmp.Compare(adv.Sequence, known.sequence))
}

// hear applies an advertisement, unless it is older than the newest one or the same.
func (o *oracle) hear(adv *v1.Advertisement, said *lender) {
	epoch, newer := o.order(adv)
	if newer <= 0 {
		return
	}
	said.epoch, said.sequence, said.since = epoch, adv.Sequence, said.heard
	if known := o.lenders[adv.ClusterID]; known != nil && known.agent {
		said.since = known.since
	}
	o.lenders[adv.ClusterID] = said
}

// hearManifest applies a manifest. It keeps what is known of the agent of the cluster.
func (o *oracle) hearManifest(id string, said *lender) {
	if known := o.lenders[id]; known != nil {
		said.agent, said.since, said.epoch, said.sequence = known.agent, known.since, known.epoch, known.sequence
	}
	o.lenders[id] = said
}

// restarted resets state that a restarted broker has lost: the times and numbers of
// advertisements, and links.
func (o *oracle) restarted(now time.Time) {
	clear(o.shutWays)
	o.forgetIdle()
	for _, l := range o.lenders {
		if l.agent {
			l.heard, l.epoch, l.sequence = now, 0, 0
		}
	}
}

// cause is what the action of a step did that may free capacity.
type cause struct {
	// gone is a placement that its provider reported Gone in this step. released is a reservation
	// that its requester released.
	gone     ledger.PlacementRef
	released string
	// by is the user who released that reservation.
	by string
}

// followStanding applies the changes of the placements that the oracle knows, and returns an error
// if one is wrong.
func (o *oracle) followStanding(name string, r *ledger.Reservation, now time.Time, why cause) error {
	known := o.told[name]
	if r == nil || known == nil {
		return nil
	}
	if err := o.healedRightly(known, r, now); err != nil {
		return fmt.Errorf("reservation %s: %w", name, err)
	}
	if err := o.recalledRightly(known, r, now); err != nil {
		return fmt.Errorf("reservation %s: %w", name, err)
	}
	for i := range known.placements {
		if err := o.followPlacement(known, r, i, now, why); err != nil {
			return fmt.Errorf("placement %s-%d: %w", name, i+1, err)
		}
	}
	return nil
}

// follow applies the changes of a reservation, and returns an error if one is wrong.
func (o *oracle) follow(name string, r *ledger.Reservation, now time.Time, why cause) error {
	known := o.told[name]
	if r == nil {
		return o.forgotten(name, known, now, why)
	}
	if known == nil {
		return fmt.Errorf("reservation %s of %s was granted to nobody", name, r.Requester)
	}
	for i := range r.Placements {
		if err := o.followPlacement(known, r, i, now, why); err != nil {
			return fmt.Errorf("placement %s-%d: %w", name, i+1, err)
		}
	}
	waited := known.waiting
	if err := o.followQueue(known, r, now); err != nil {
		return err
	}
	if err := o.namedRightly(known, r, why); err != nil {
		return err
	}
	o.followIdle(known, r, now)
	if r.EndReason == known.ended {
		return nil
	}
	if known.ended != "" {
		return fmt.Errorf("reservation %s ended as %s, and is %q now", name, known.ended, r.EndReason)
	}
	known.ended, known.endedAt = r.EndReason, now
	return o.endedRightly(known, r, now, waited, why)
}

// forgotten checks that the broker may forget a reservation: it ended long ago, and all its
// providers have confirmed that nothing is left.
func (o *oracle) forgotten(name string, known *told, now time.Time, why cause) error {
	if known == nil {
		return nil
	}
	for i, p := range known.placements {
		if !p.gone && p.provider != o.forgot && why.gone != (ledger.PlacementRef{Name: name, Placement: int32(i + 1)}) {
			return fmt.Errorf("reservation %s is forgotten, and %s still keeps capacity for it", name, p.provider)
		}
	}
	if known.ended == "" || now.Sub(known.endedAt) < retain {
		return fmt.Errorf("reservation %s is forgotten: it ended %s ago as %q", name, now.Sub(known.endedAt), known.ended)
	}
	delete(o.told, name)
	delete(o.keys, known.keyOf)
	return nil
}

// placedRightly checks that a reservation may get its next placement on a cluster.
func (o *oracle) placedRightly(known *told, provider string, now time.Time) error {
	held := known.taken && len(known.placements) == 0
	if !held && !o.fits(provider, known.amounts) {
		if err := o.createsRightly(known, provider, now); err != nil {
			return err
		}
	}
	if _, cordoned := o.rules.drains[provider]; cordoned {
		return fmt.Errorf("%s is cordoned, and gets something new", provider)
	}
	if provider == known.requester {
		return errors.New("a cluster lends to itself")
	}
	if !held && !o.affords(known.request, provider, known.amounts) {
		return fmt.Errorf("%s asks %d for a core, at most %v is accepted for %v", provider, o.lenders[provider].price, known.request.Constraints.MaxPrice, known.amounts)
	}
	if err := o.suited(known.request, provider); !held && err != nil {
		return err
	}
	if !held && !o.reaches(known.requester, provider, now) {
		return fmt.Errorf("%s cannot reach %s", known.requester, provider)
	}
	if why := o.suspended.lasting(o.before, known.requester, provider, o.delivered[provider]); !held && why != "" {
		return fmt.Errorf("%s gets a placement on %s, from which it is kept away: %s", known.requester, provider, why)
	}
	if why := known.keptFrom(provider, now); why != "" {
		return fmt.Errorf("%s is asked again: %s", provider, why)
	}
	if other := o.askedBefore(known, provider, now); !held && other != "" {
		return fmt.Errorf("%s is asked again before %s", provider, other)
	}
	if err := o.inTurn(known, provider, now); !held && err != nil {
		return err
	}
	return nil
}

func (o *oracle) followPlacement(known *told, r *ledger.Reservation, i int, now time.Time, why cause) error {
	p := &r.Placements[i]
	if i == len(known.placements) {
		if err := o.placedRightly(known, p.Provider, now); err != nil {
			return err
		}
		known.placements = append(known.placements, promise{provider: p.Provider, amounts: known.amounts, assigned: now, price: o.offered(known, p.Provider)})
	}
	was := &known.placements[i]
	if was.provider != p.Provider {
		return fmt.Errorf("it was on %s and is on %s", was.provider, p.Provider)
	}
	if err := o.priceKept(known, was, p, now); err != nil {
		return err
	}
	if requester := o.lenders[known.requester]; !was.served && p.EverReady ||
		!was.acknowledged && !p.AcknowledgedAt.IsZero() && (requester == nil || !requester.agent) {
		o.delivered[p.Provider] = true
	}
	was.acknowledged = was.acknowledged || !p.AcknowledgedAt.IsZero()
	if p.Withdrawn == ledger.Preempted && was.reason == "" && (known.notice == nil || now.Before(known.notice.Ends)) {
		return fmt.Errorf("it has to go, with notice %+v", known.notice)
	}
	if err := o.waitedRightly(known, p, was, now); err != nil {
		return err
	}
	if was.reason == "" {
		if err := o.createdRightly(known, p, i, now); err != nil {
			return err
		}
	}
	if was.reason == "" && p.Withdrawn != "" {
		known.left, was.at = i, now
	}
	if was.reason == "" && p.EverReady && (p.Withdrawn == unreachable || p.Withdrawn == ledger.HandshakeRefused) {
		return fmt.Errorf("its node was Ready, and it is left for %s", p.Withdrawn)
	}
	if was.reason == "" && p.Withdrawn == unreachable {
		o.shutWays[way{known.requester, p.Provider}] = now
	}
	was.givenUp, was.reason = !r.Stands(p), p.Withdrawn
	if was.givenUp {
		known.unheard(i, p.Withdrawn == "", stoodBeside(known, r, i))
	}
	if was.gone && !p.ProviderGone {
		return errors.New("it was gone and is back")
	}
	if !was.gone && p.ProviderGone {
		said := why.gone == ledger.PlacementRef{Name: r.Name, Placement: p.Number}
		if !was.givenUp || !said && o.lenders[p.Provider].agent {
			return fmt.Errorf("its capacity is sold again, and %s has not confirmed that it is free", p.Provider)
		}
		was.gone = true
		o.left[p.Provider] = max(o.left[p.Provider], r.Changed)
	}
	return nil
}

// leaseSlack is how much earlier than a lease after its last request a reservation without a
// duration may end, because not every renewal is recorded.
const leaseSlack = renewEvery / 2

func (o *oracle) endedRightly(known *told, r *ledger.Reservation, now time.Time, waited *stay, why cause) error {
	switch r.EndReason {
	case ledger.EndExpired:
		if due := known.due(); now.Before(due) {
			return fmt.Errorf("reservation %s expired %s before its time", known.name, due.Sub(now))
		}
	case ledger.EndIdle:
		return o.idleRightly(known, now)
	case ledger.EndReleased:
		if why.released != known.name && known.requester != o.forgot {
			return fmt.Errorf("reservation %s was released, and nobody asked for it: %s", known.name, r.EndMessage)
		}
	case ledger.EndPreempted:
		if len(known.placements) == 0 || known.placements[known.left].reason != ledger.Preempted || known.mayWait() {
			return fmt.Errorf("reservation %s was preempted, with %+v (may wait: %t)", known.name, known.placements, known.mayWait())
		}
	case ledger.EndFailed:
		if known.mayWait() && (waited == nil || now.Before(waited.until)) {
			return fmt.Errorf("reservation %s failed, and may wait: %+v", known.name, waited)
		}
		for _, p := range known.placements {
			if !p.givenUp {
				return fmt.Errorf("reservation %s failed, and %s still serves it", known.name, p.provider)
			}
		}
	}
	return nil
}

// due returns the time before which a reservation must not end because of its duration or lease.
func (r *told) due() time.Time {
	if r.duration > 0 {
		return r.until
	}
	return r.asked.Add(lease - leaseSlack)
}

// overdue returns an error if a reservation stands after the end of its duration.
func (o *oracle) overdue(now time.Time) error {
	for _, r := range o.told {
		if r.ended == "" && r.waiting == nil && r.duration > 0 && !now.Before(r.due()) {
			return fmt.Errorf("reservation %s stands %s after its time: %+v", r.name, now.Sub(r.due()), r.placements)
		}
	}
	return nil
}

// differs returns an error if the book's figures of a lender differ from its promises.
func (o *oracle) differs(id string, c *ledger.Cluster) error {
	if o.lenders[id] == nil || c == nil {
		return fmt.Errorf("cluster %s: known to the broker: %t, to itself: %t", id, c != nil, o.lenders[id] != nil)
	}
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if got, want := c.Claimed()[resource], o.promised(id, resource); got != want {
			return fmt.Errorf("cluster %s has promised %d of %s, the broker counts %d", id, want, resource, got)
		}
		if got, want := c.Available()[resource], o.free(id, resource); got != want {
			return fmt.Errorf("cluster %s has %d of %s left, the broker counts %d", id, want, resource, got)
		}
		if got, want := c.AvailableWithNewNodes()[resource], o.withNew(id, resource); got != want {
			return fmt.Errorf("cluster %s has %d of %s left, new nodes included, the broker counts %d", id, want, resource, got)
		}
	}
	return nil
}
