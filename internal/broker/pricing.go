package broker

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// priceFor is how long the price of a reservation without a duration (a lease) stays locked.
const priceFor = 24 * time.Hour

// repriceLease returns the new price of a lease that is being renewed, and true if it replaces the
// locked one. In every period of priceFor since the grant, the first renewal takes over the
// provider's present price, unless the request does not accept that price.
func (rs *reservations) repriceLease(r *ledger.Reservation) (*ledger.Price, bool) {
	p := r.Current()
	if !r.Stands(p) || r.Beside(p) != nil {
		return nil, false
	}
	if !isRepriceDue(p.AssignedAt.Time(), r.Until.Add(-lease), rs.s.now()) {
		return nil, false
	}
	price := rs.s.book.Cluster(p.Provider).PriceFor(&r.Request)
	if price.HasTermsOf(p.Price) || !decision.Accepts(rs.s.market, rs.s.decider.newDecisionRequest(requests.Of(r), ledger.Tried{}), p.Provider) {
		return nil, false
	}
	rs.s.log.Info("lease repriced", "reservation", r.Name, "requester", r.Requester, "target", p.Provider,
		"perHour", price.PerHour(r.Amounts, requirements.DataBytes(r.Demands().Data)).String())
	if p.Price != nil { // no candidates were compared since the grant, so Dearest stays
		price = price.ComparedWith(p.Price.Dearest, &r.Request)
	}
	return price, true
}

// isRepriceDue reports whether a renewal now is the first one in its period of priceFor. The
// periods count from the grant, and no price changes in the first period. The last renewal may be
// older than the grant: an outage of the broker extends leases, and the reservation may get a new
// placement in this time.
func isRepriceDue(granted, renewed, now time.Time) bool {
	periodOf := func(at time.Time) time.Duration { return max(at.Sub(granted), 0) / priceFor }
	return periodOf(now) > periodOf(renewed)
}

// asOf converts a time to metav1.Time, in whole seconds; nil for the zero time.
func asOf(at time.Time) *metav1.Time {
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
	out := &brokerv1alpha1.ReservationCost{Currency: c.Currency, SoFar: c.SoFar.Money().String(), AsOf: asOf(c.AsOf)}
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
