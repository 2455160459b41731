package reservations

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// renewLease extends a reservation without a duration, so that it ends one lease from now. It does
// nothing if too little time has passed since the last extension, because each extension costs a
// record, and nothing for any other reservation.
func (rs *Reservations) renewLease(r *ledger.Reservation) error {
	if r.Duration != 0 || r.EndReason != "" || r.Waiting != nil {
		return nil
	}
	until := rs.s.Now().Add(term.Lease)
	if until.Sub(r.Until) < term.RenewEvery/2 {
		return nil
	}
	renew := &ledger.Renew{Name: r.Name, Until: until}
	renew.Price, renew.Repriced = rs.repriceLease(r)
	return rs.s.Record(ledger.Event{Change: renew})
}

// priceFor is how long the price of a reservation without a duration (a lease) stays locked.
const priceFor = 24 * time.Hour

// repriceLease returns the new price of a lease that is being renewed, and true if it replaces the
// locked one. In every period of priceFor since the grant, the first renewal takes over the
// provider's present price, unless the request does not accept that price.
func (rs *Reservations) repriceLease(r *ledger.Reservation) (*ledger.Price, bool) {
	p := r.Current()
	if !r.Stands(p) || r.Beside(p) != nil {
		return nil, false
	}
	if !isRepriceDue(p.AssignedAt.Time(), r.Until.Add(-term.Lease), rs.s.Now()) {
		return nil, false
	}
	price := rs.s.Book().Cluster(p.Provider).PriceFor(&r.Request)
	if price.HasTermsOf(p.Price) || !decision.Accepts(rs.market, rs.s.NewDecisionRequest(requests.Of(r), ledger.Tried{}), p.Provider) {
		return nil, false
	}
	rs.s.Log().Info("lease repriced", "reservation", r.Name, "requester", r.Requester, "target", p.Provider,
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
