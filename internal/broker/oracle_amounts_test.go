package broker

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// unanswered is a change that one provider has to answer.
type unanswered struct {
	generation int64
	placement  int
	amounts    quantity.Amounts
}

// mayKeep returns the largest amount of a resource that the provider of a placement may hold,
// because it may or may not have carried out a change.
func (r *told) mayKeep(placement int, resource corev1.ResourceName) int64 {
	most := r.placements[placement].amounts[resource]
	if r.change != nil && r.change.placement == placement {
		most = max(most, r.change.amounts[resource])
	}
	return most
}

// wanted returns the amounts with which the requester repeats its request.
func (r *told) wanted() quantity.Amounts {
	if r.change != nil {
		return r.change.amounts
	}
	return r.amounts
}

// unheard ends a change whose placement was given up before its provider answered. A reduction then
// applies, unless another provider serves the reservation already. If the reservation has ended,
// any change applies, because the requester repeats the last requested amounts.
func (r *told) unheard(placement int, ended, another bool) {
	if r.change == nil || r.change.placement != placement {
		return
	}
	most, less := quantity.Amounts{}, true
	for _, resource := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		most[resource] = r.mayKeep(placement, resource)
		less = less && r.change.amounts[resource] <= r.amounts[resource]
	}
	if less && !another || ended {
		r.amounts = r.change.amounts
	}
	r.placements[placement].amounts, r.change = most, nil
}

// stoodBeside reports whether another provider served the reservation when placement i was given
// up. If the other placement was granted or given up within the same step, the order is unknown;
// the change was refused only if the other placement stood.
func stoodBeside(known *told, r *ledger.Reservation, i int) bool {
	p := &r.Placements[i]
	refused := known.change != nil && r.Refusal != nil && r.Refusal.Generation == known.change.generation
	for n, other := range known.placements {
		if !other.givenUp && (refused || r.Stands(&r.Placements[n])) {
			return true
		}
	}
	switch p.Withdrawn {
	case ledger.ProviderLost:
		return true
	case ledger.Recalled, ledger.Drained, ledger.NodeLost:
		return i+1 < len(r.Placements) && refused
	}
	return false
}

// newest returns the index of the newest standing placement, -1 if there is none.
func (r *told) newest() int {
	for i, p := range slices.Backward(r.placements) {
		if !p.givenUp {
			return i
		}
	}
	return -1
}

// endsIf returns when the reservation would end with the given duration. If it waits, the result
// assumes that it is granted now.
func (r *told) endsIf(duration time.Duration, now time.Time) time.Time {
	switch {
	case r.waiting != nil && r.duration > 0:
		return now.Add(r.waiting.left + duration - r.duration)
	case r.waiting != nil:
		return now.Add(duration)
	case r.duration > 0:
		return r.until.Add(duration - r.duration)
	default:
		return r.granted.Add(duration)
	}
}

// refusalOf returns the expected refusal of a change, "" if the broker must accept it.
func (o *oracle) refusalOf(r *told, duration time.Duration, amounts quantity.Amounts, now time.Time) fault.Reason {
	n := r.newest()
	switch {
	case r.ended != "":
		return fault.Released
	case duration > 0 && !r.endsIf(duration, now).After(now):
		return fault.Invalid
	case amounts.Equal(r.wanted()), n < 0 && r.change == nil:
		return ""
	case r.change != nil, r.standing() > 1:
		return fault.Awaiting
	}
	p := r.placements[n]
	l := o.lenders[p.provider]
	if l.agent && !p.acknowledged {
		return fault.Awaiting
	}
	for resource, want := range amounts {
		now, kept := now, r.mayKeep(n, resource)
		if want <= kept {
			continue
		}
		if !o.affords(r.request, p.provider, amounts) {
			return fault.Conflict
		}
		more := want - max(kept, l.used[brokerv1alpha1.PlacementName(r.name, int32(n+1))][resource])
		// The placement may always have what its pods already use, even if the provider has less
		// free than it has lent, or has tainted their nodes.
		if more > 0 && !o.suits(r.request, p.provider) {
			return fault.Conflict
		}
		free := max(o.free(p.provider, resource)-o.kept(p.provider, resource, nobody), 0)
		_, cordoned := o.rules.drains[p.provider]
		if cordoned || !o.lends(p.provider, now) || more > free || o.rules.paused && o.whoComesBefore(r, amounts, now) != nil {
			return fault.Conflict
		}
	}
	return ""
}

// whoComesBefore returns a waiting reservation with a prior right to the additional amounts; nil if
// there is none. The amounts of an unanswered change are not additional: the broker has kept room
// for them since it accepted that change. What is reserved on the provider for a preemptor stays
// reserved, so a preemptor comes before only if it fits into the rest as well.
func (o *oracle) whoComesBefore(r *told, amounts quantity.Amounts, now time.Time) *told {
	n := r.newest()
	if _, less := quantity.Fits(amounts, r.amounts); less || n < 0 || amounts.Equal(r.wanted()) {
		return nil
	}
	id := r.placements[n].provider
	for _, other := range o.told {
		if other.waiting != nil && o.isBefore(other, r) && o.mayServe(id, other, now) && o.takes(id, other.amounts, nil) {
			return other
		}
	}
	return nil
}

// change asks for another duration of a reservation, other amounts, or both, and checks the answer.
func (m *machine) change(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil {
		return cause{}, nil
	}
	change := &v1.ReservationChange{Generation: r.generation + 1, DurationSeconds: int64(r.duration / time.Second), Actor: anyUser(c)}
	amounts := r.wanted()
	if c(3) == 0 {
		change.DurationSeconds = oneOf(c, 0, int64(60+c(600)))
	}
	if c(4) > 0 {
		change.Resources = m.anyRequest(c).Resources
		amounts = amountsOf(change.Resources)
	}
	duration := time.Duration(change.DurationSeconds) * time.Second
	want, first := m.refusalOf(r, duration, amounts, m.now()), m.whoComesBefore(r, amounts, m.now())
	_, err := m.ChangeReservation(context.Background(), r.requester, r.name, change)
	got := fault.ReasonOf(err)
	if n := r.newest(); got == fault.Recovering && n >= 0 && r.change == nil && m.now().Sub(m.began) < recovery.ListenGrace {
		return cause{}, nil
	}
	if got != want || err != nil && got == "" {
		return cause{}, fmt.Errorf("changing %s to %v for %s: %v (%q), want %q; it has %+v, unanswered %+v", r.name, change.Resources, duration, err, got, want, r, r.change)
	}
	if err != nil {
		return cause{}, nil
	}
	if first != nil {
		return cause{}, fmt.Errorf("out of turn: %s grows to %v, and %s of priority %d waits and comes before it", r.name, amounts, first.name, m.priority(first))
	}
	if r.waiting != nil {
		r.waiting.left = max(r.endsIf(duration, m.now()).Sub(m.now()), time.Second)
	}
	r.until = r.endsIf(duration, m.now())
	r.generation, r.duration, r.changedBy = change.Generation, duration, change.Actor
	if duration == 0 {
		r.asked = m.now()
	}
	n := r.newest()
	switch {
	case amounts.Equal(r.wanted()):
	case n >= 0 && m.lenders[r.placements[n].provider].agent:
		r.change = &unanswered{r.generation, n, amounts}
	default:
		r.amounts = amounts
		if n >= 0 {
			r.placements[n].amounts = amounts
		}
	}
	return cause{}, nil
}

// answerChange sends a provider's answer, sometimes to a change that it was not asked about.
func (m *machine) answerChange(c choose) (cause, error) {
	r := m.anyTold(c)
	for _, name := range m.names {
		if m.told[name].change != nil && c(4) > 0 {
			r = m.told[name]
		}
	}
	if r == nil || len(r.placements) == 0 {
		return cause{}, nil
	}
	n, generation := len(r.placements)-1, int64(1+c(4))
	if r.change != nil && c(8) > 0 {
		n, generation = r.change.placement, r.change.generation
	}
	report := &v1.StatusReport{
		Placement: int32(n + 1), Role: v1.StatusReportRoleProvider, Change: generation,
		State: oneOf(c, v1.StatusReportStateAcknowledged, v1.StatusReportStateAcknowledged, v1.StatusReportStateRefused),
	}
	err := m.ReportStatus(context.Background(), r.placements[n].provider, r.name, report)
	awaited := r.change != nil && r.change.placement == n && r.change.generation == generation
	if awaited && r.standing() > 1 {
		if fault.ReasonOf(err) != fault.Awaiting {
			return cause{}, fmt.Errorf("%s on change %d of %s, which is between two providers: %w", report.State, generation, r.name, err)
		}
		return cause{}, nil
	}
	if err != nil && (awaited || fault.ReasonOf(err) != fault.Conflict) {
		return cause{}, fmt.Errorf("%s on change %d of %s: %w", report.State, generation, r.name, err)
	}
	if awaited {
		if report.State == v1.StatusReportStateAcknowledged {
			r.amounts, r.placements[n].amounts = r.change.amounts, r.change.amounts
		}
		r.change = nil
	}
	return cause{}, nil
}
