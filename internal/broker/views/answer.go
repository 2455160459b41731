package views

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// AnswerFor converts a reservation to the type of the REST API. A provider gets less of it than the
// requester.
func (v *Views) AnswerFor(r *ledger.Reservation, clusterID string) *v1.Reservation {
	out := &v1.Reservation{
		Name:             r.Name,
		RequesterID:      r.Requester,
		Phase:            v1.ReservationPhase(r.Phase()),
		Resources:        wire.FromAmounts(r.Amounts),
		ReservedAt:       r.ReservedAt(),
		Queue:            v.queuePlaceOf(r),
		RemainingSeconds: v.remainingSeconds(r),
		Placements:       make([]v1.Placement, len(r.Placements)),
		Message:          v.DescribeState(r),
		EndReason:        v1.ReservationEndReason(r.EndReason),
		Change:           changeOf(r),
	}
	for i := range r.Placements {
		p := &r.Placements[i]
		out.Placements[i] = v1.Placement{
			Number: p.Number, ClusterID: p.Provider, Reason: p.Withdrawn,
			State: v1.PlacementState(r.PlacementPhase(p)),
		}
	}
	if r.Requester != clusterID {
		return out
	}
	out.RequestedBy = ledger.ActorOf(r.By).String()
	if r.EndReason != "" {
		out.Message = term.EndOf(r) // stays true, unlike the state that DescribeState adds
	}
	out.Cost = showCost(r)
	if p := r.Current(); p != nil && r.Waiting == nil {
		out.Instruction = v.InstructionFor(r, p, v1.InstructionRoleConsumer)
		out.Notice = out.Instruction.Notice
	}
	if r.Explanation != "" {
		out.Candidates = v.s.Visibility().VisibleTo(v.s.DecodeCandidates(r.Explanation), r.Provider, r.Target)
		out.Rejected = r.Explanation.Rejected()
	}
	if r.Waiting != nil {
		out.RenewSeconds = v.s.RefreshAfter(r).Seconds()
		return out
	}
	if r.Duration == 0 && r.EndReason == "" {
		left := r.Until.Sub(v.s.Now())
		out.LeaseSeconds, out.RenewSeconds = new(v.secondsTo(r.Until)), max(left+term.RenewEvery-term.Lease, time.Minute).Seconds()
	}
	if r.Pending != nil {
		out.RenewSeconds = term.AnswerRetry.Seconds()
	}
	return out
}

func (v *Views) queuePlaceOf(r *ledger.Reservation) *v1.QueuePlace {
	p := v.s.PlaceOf(r)
	if p == nil {
		return nil
	}
	return &v1.QueuePlace{
		Position: int32(p.Place), Since: p.Since, RemainingSeconds: v.secondsTo(p.Until), Reason: p.Reason,
	}
}

func changeOf(r *ledger.Reservation) *v1.ChangeState {
	switch {
	case r.Pending != nil:
		return &v1.ChangeState{
			Generation: r.Pending.Generation, State: v1.ChangeStateStatePending, Resources: wire.FromAmounts(r.Pending.Amounts),
			Message: "waiting for " + r.Placement(r.Pending.Placement).Provider + " to agree",
		}
	case r.Refusal != nil:
		return &v1.ChangeState{Generation: r.Refusal.Generation, State: v1.ChangeStateStateRefused, Message: r.Refusal.Reason}
	default:
		return nil
	}
}

// ToSeconds truncates a time to whole seconds, the precision of the API, so that an unchanged status compares equal. It
// returns nil for the zero time.
func ToSeconds(at time.Time) *metav1.Time {
	if at.IsZero() {
		return nil
	}
	out := metav1.Unix(at.Unix(), 0)
	return &out
}

// maxEarlier limits the sums in other currencies that a status lists, and maxNotPriced the resources
// without a price.
const maxEarlier, maxNotPriced = 32, 32

// showCost converts the cost of a reservation to the API's type, nil if it has none.
func showCost(r *ledger.Reservation) *brokerv1alpha1.ReservationCost {
	c := r.Cost()
	if c == nil {
		return nil
	}
	out := &brokerv1alpha1.ReservationCost{Currency: c.Currency, SoFar: c.SoFar.Money().String(), AsOf: ToSeconds(c.AsOf)}
	if c.PerHour > 0 || c.ToEnd != nil || c.Runs {
		out.PerHour = c.PerHour.String()
	}
	if out.PerHour != "" && !c.Runs {
		out.AsOf = nil // nothing is paid until the provider has acknowledged
	}
	if c.ToEnd != nil {
		out.ToEnd = c.ToEnd.Money().String()
	}
	for _, name := range c.NotPriced[:min(len(c.NotPriced), maxNotPriced)] {
		out.NotPriced = append(out.NotPriced, string(name))
	}
	for _, e := range c.Earlier[:min(len(c.Earlier), maxEarlier)] {
		out.Earlier = append(out.Earlier, brokerv1alpha1.EarlierCost{Amount: e.Sum.Money().String(), Currency: e.Currency})
	}
	return out
}
