package broker

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// oracle is what the clusters of a simulation know together: what they have, what
// they were promised and what they have given back. It counts everything anew
// whenever it is asked, and shares no rule with decision, ledger and broker.
type oracle struct {
	lenders map[string]*lender
	// told are all reservations that anybody heard of and the broker has not forgotten.
	told map[string]*told
	// pledges are what lenders keep for quotes, oldest first.
	pledges []*pledge
	// keys are those in use, and shut those that were given back before their use.
	keys map[keyOf]string
	shut map[keyOf]bool
	// stays counts those in the queue, by the rules, earlier those before this step.
	stays, earlier int
	rules          rules
	// pending are those that changed in this step and were not looked at yet.
	pending map[string]bool
	// left is the position in the log at which, in this step, a placement went from a
	// lender, or one for which others made room there did not wait any more.
	left map[string]uint64
	// shutWays is when a cluster told last that it cannot reach another one.
	shutWays map[way]time.Time
	// suspended is who is kept away from whom after this step, before after the one before.
	suspended, before suspensions
}

type keyOf struct{ requester, key string }

// lender is one cluster as it described itself.
type lender struct {
	amounts quantity.Amounts
	// own is what its own pods request.
	own  quantity.Amounts
	used map[string]quantity.Amounts
	// recalls is until when it lends placements that it wants back, by name.
	recalls map[string]time.Time
	// unheard are those of them that count once they are said again: they were said while
	// the other of two placements was called back.
	unheard map[string]bool
	// agent is whether one ever spoke.
	agent           bool
	heard           time.Time
	epoch, sequence int64
}

// told is a reservation.
type told struct {
	keyOf
	name string
	// amounts are those that were agreed last.
	amounts  quantity.Amounts
	request  *v1.ReservationRequest
	duration time.Duration
	// patient is whether it wants to wait for a provider that is silent.
	patient bool
	// change is a change of amounts that a provider has not answered; nil if there is none.
	change *unanswered
	// generation of the last change that was taken.
	generation int64
	// granted is when it got its first placement.
	granted time.Time
	// until is when it ends if it has a duration, asked when it was last asked for,
	// which renews it if it has none. While it waits neither counts.
	until, asked time.Time
	// waiting is its stay in the queue, notice what it is told; each nil without.
	waiting *stay
	notice  *ledger.Notice
	// recall is what its provider wants back, as the broker knows it; nil for nothing.
	recall *ledger.CallBack
	// toldNow and preemptsNow are whether notices were given in this step.
	toldNow, preemptsNow bool
	ended                ledger.EndReason
	endedAt              time.Time
	// closed is whether nothing was waited for before this step.
	closed     bool
	placements []promise
	// left is the index of the placement that was given up last before the end.
	left int
	// taken is whether its first placement was held for a quote before.
	taken bool
}

// promise is a placement, which its provider keeps capacity for until it is gone.
type promise struct {
	provider string
	// amounts that it has said it keeps, or may keep where it was not heard before it was
	// given up.
	amounts      quantity.Amounts
	acknowledged bool
	givenUp      bool
	// reason why it was given up.
	reason string
	gone   bool
}

func newOracle() *oracle {
	return &oracle{rules: rules{preempts: true}, pending: map[string]bool{}, left: map[string]uint64{}, shutWays: map[way]time.Time{}, lenders: map[string]*lender{}, told: map[string]*told{}, keys: map[keyOf]string{}, shut: map[keyOf]bool{}}
}

// promised is what a lender has promised of a resource or sees in use, and has not
// taken back.
func (o *oracle) promised(id string, resource corev1.ResourceName) int64 {
	sum := o.pledged(id, resource)
	counted := map[string]bool{}
	for _, r := range o.told {
		for i, p := range r.placements {
			if p.provider == id && !p.gone {
				counted[ledger.PlacementName(r.name, int32(i+1))] = true
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

// claims is what a placement holds, or uses where that is more.
func (o *oracle) claims(r *told, placement int, resource corev1.ResourceName) int64 {
	used := o.lenders[r.placements[placement].provider].used[ledger.PlacementName(r.name, int32(placement+1))]
	return max(r.mayKeep(placement, resource), used[resource])
}

func (o *oracle) free(id string, resource corev1.ResourceName) int64 {
	l := o.lenders[id]
	return max(l.amounts[resource]-l.own[resource]-o.promised(id, resource), 0)
}

// fits is whether a lender has room for amounts beside everything it has promised.
func (o *oracle) fits(id string, amounts quantity.Amounts) bool {
	for resource, want := range amounts {
		if want > o.free(id, resource) {
			return false
		}
	}
	return true
}

// lends is whether a lender may be asked now: somebody has heard of it lately.
func (o *oracle) lends(id string, now time.Time) bool {
	l := o.lenders[id]
	if l.agent {
		return now.Sub(l.heard) < 90*time.Second
	}
	return now.Sub(l.heard) < 10*time.Minute
}

// candidates are the lenders that can take amounts of a requester now.
func (o *oracle) candidates(requester string, amounts quantity.Amounts, now time.Time) []string {
	var out []string
	for id := range o.lenders {
		if id != requester && o.lends(id, now) && o.reaches(requester, id, now) && !o.suspended.keep(requester, id) && o.takes(id, amounts, nil) {
			out = append(out, id)
		}
	}
	return out
}

// hear takes an advertisement unless it was overtaken.
func (o *oracle) hear(id string, said *lender) {
	if known := o.lenders[id]; known != nil {
		if said.agent && (said.epoch < known.epoch || said.epoch == known.epoch && said.sequence <= known.sequence) {
			return
		}
		said.agent = said.agent || known.agent
	}
	o.lenders[id] = said
}

// restarted: the broker has forgotten when it heard of agents, and what they numbered.
func (o *oracle) restarted(now time.Time) {
	clear(o.shutWays)
	for _, l := range o.lenders {
		if l.agent {
			l.heard, l.epoch, l.sequence = now, 0, 0
		}
	}
}

// cause is what was done in one step, as far as it allows capacity to come back.
type cause struct {
	// gone is a placement whose provider said in this step that nothing of it is left.
	gone     ledger.PlacementRef
	released string
}

// followStanding takes in what became of the placements that are known.
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

// follow takes a change of a reservation in, and says what was wrong with it.
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
	if r.EndReason == known.ended {
		return nil
	}
	if known.ended != "" {
		return fmt.Errorf("reservation %s ended as %s, and is %q now", name, known.ended, r.EndReason)
	}
	known.ended, known.endedAt = r.EndReason, now
	return o.endedRightly(known, r, now, waited, why)
}

// forgotten may be what ended long ago, once the last has confirmed.
func (o *oracle) forgotten(name string, known *told, now time.Time, why cause) error {
	if known == nil {
		return nil
	}
	for i, p := range known.placements {
		if !p.gone && why.gone != (ledger.PlacementRef{Name: name, Placement: int32(i + 1)}) {
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

// placedRightly is whether a reservation may get its next placement on a cluster.
func (o *oracle) placedRightly(known *told, provider string, now time.Time) error {
	held := known.taken && len(known.placements) == 0
	if !held && !o.fits(provider, known.amounts) {
		return fmt.Errorf("overbooked: %s has %d CPUs left and was promised to give %d", provider,
			o.free(provider, corev1.ResourceCPU), known.amounts[corev1.ResourceCPU])
	}
	if provider == known.requester {
		return errors.New("a cluster lends to itself")
	}
	if !held && !o.reaches(known.requester, provider, now) {
		return fmt.Errorf("%s cannot reach %s", known.requester, provider)
	}
	if why := o.suspended.lasting(o.before, known.requester, provider); !held && why != "" {
		return fmt.Errorf("%s gets a placement on %s, from which it is kept away: %s", known.requester, provider, why)
	}
	if slices.ContainsFunc(known.placements, func(q promise) bool { return q.provider == provider && !q.mayReturn() }) {
		return fmt.Errorf("%s is asked again, which gave it up before", provider)
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
		known.placements = append(known.placements, promise{provider: p.Provider, amounts: known.amounts})
	}
	was := &known.placements[i]
	if was.provider != p.Provider {
		return fmt.Errorf("it was on %s and is on %s", was.provider, p.Provider)
	}
	was.acknowledged = was.acknowledged || !p.AcknowledgedAt.IsZero()
	if p.Withdrawn == ledger.Preempted && was.reason == "" && (known.notice == nil || now.Before(known.notice.Ends)) {
		return fmt.Errorf("it has to go, with notice %+v", known.notice)
	}
	if was.reason == "" && p.Withdrawn != "" {
		known.left = i
	}
	if was.reason == "" && p.EverReady && (p.Withdrawn == unreachable || p.Withdrawn == ledger.HandshakeRefused) {
		return fmt.Errorf("its node was Ready, and it is left for %s", p.Withdrawn)
	}
	if was.reason == "" && p.Withdrawn == unreachable {
		o.shutWays[way{known.requester, p.Provider}] = now
	}
	was.givenUp, was.reason = !r.Stands(p), p.Withdrawn
	if was.givenUp {
		another := slices.ContainsFunc(known.placements, func(p promise) bool { return !p.givenUp }) || p.Withdrawn == ledger.ProviderLost ||
			// Another one may have been granted and this one given up within the step, in
			// either order; the refusal tells.
			p.Withdrawn == ledger.Recalled && i+1 < len(r.Placements) && known.change != nil && r.Refusal != nil && r.Refusal.Generation == known.change.generation
		known.unheard(i, p.Withdrawn == "", another)
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

// leaseSlack is how much earlier than a lease after it was last asked for a
// reservation may end: asking again is not written down every time.
const leaseSlack = renewEvery / 2

func (o *oracle) endedRightly(known *told, r *ledger.Reservation, now time.Time, waited *stay, why cause) error {
	switch r.EndReason {
	case ledger.EndExpired:
		if due := known.due(); now.Before(due) {
			return fmt.Errorf("reservation %s expired %s before its time", known.name, due.Sub(now))
		}
	case ledger.EndReleased:
		if why.released != known.name {
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

// due is before when a reservation may not expire.
func (r *told) due() time.Time {
	if r.duration > 0 {
		return r.until
	}
	return r.asked.Add(lease - leaseSlack)
}

// overdue is a reservation whose duration is over and which stands.
func (o *oracle) overdue(now time.Time) error {
	for _, r := range o.told {
		if r.ended == "" && r.waiting == nil && r.duration > 0 && !now.Before(r.due()) {
			return fmt.Errorf("reservation %s stands %s after its time: %+v", r.name, now.Sub(r.due()), r.placements)
		}
	}
	return nil
}

// differs says where a lender's figures are other than what was promised.
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
	}
	return nil
}
