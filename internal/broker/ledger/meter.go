package ledger

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Metering determines for what a reservation is charged, and for which time.
//
// A reservation is metered on one placement at a time: the oldest one that stands and that its
// provider has acknowledged, or whose provider has no agent that could acknowledge it. So metering
// starts with the acknowledgement and ends when the placement is given up or the reservation ends.
// While another placement takes over, metering stays on the older one until the older one is given
// up, so the consumer never pays twice. An unclaimed reservation is not metered, because only its
// provider has confirmed it.
//
// Time is counted in whole seconds, as the difference of two instants that are both rounded down.
// So the lengths of consecutive intervals add up to the length of the whole.

// Bill is what a reservation has cost until a point in time. A stored Bill is never modified, only
// replaced, because views share it.
type Bill struct {
	// Since is the time up to which Charged includes all costs.
	Since Instant
	// Charged is the sum in Currency. Earlier are the sums in other currencies, which earlier
	// providers used.
	Currency string
	Charged  money.Sum
	Earlier  []Charge `json:",omitempty"`
}

// Charge is a sum of money in one currency.
type Charge struct {
	Currency string
	Sum      money.Sum
}

// Meter is what a reservation is charged for at present.
type Meter struct {
	// Placement is the number of the metered placement, 0 if none is metered. Provider is its
	// provider.
	Placement int32
	Provider  string
	Amounts   quantity.Amounts
	// Data is the size of the request's data in bytes.
	Data  int64
	Price *Price
}

// Metered returns what a reservation is charged for. It returns the zero Meter for a nil
// reservation and for one that is not metered.
func (r *Reservation) Metered() Meter {
	if r == nil || r.MeteredPlacement == 0 {
		return Meter{}
	}
	return r.meterOf(r.Placement(r.MeteredPlacement))
}

func (r *Reservation) meterOf(p *Placement) Meter {
	return Meter{
		Placement: p.Number, Provider: p.Provider, Amounts: r.AgreedWith(p), Price: p.Price,
		Data: requirements.DataBytes(r.Demands().Data),
	}
}

// Equal reports whether both meters charge for the same: same placement, amounts, data and price.
func (m Meter) Equal(other Meter) bool {
	return m.Placement == other.Placement && m.Provider == other.Provider && m.Data == other.Data &&
		m.Price.Equal(other.Price) && m.Amounts.Equal(other.Amounts)
}

// PerHour returns what the reservation costs for one hour.
func (m Meter) PerHour() money.Price { return m.Price.PerHour(m.Amounts, m.Data) }

// Share returns what one resource of the reservation costs for one hour, 0 if there is no price.
func (m Meter) Share(name corev1.ResourceName) money.Price {
	if m.Price == nil {
		return 0
	}
	return m.Price.Share(name, m.Amounts, m.Data)
}

// Latest returns the latest time of any applied event. It never goes back, even if the clock does.
func (s *State) Latest() time.Time { return s.latest.Time() }

// acceptedPlacement returns the placement on which the reservation has to be metered, nil for
// none. If the placement on which it has been metered so far still stands, acceptedPlacement
// returns this placement. Otherwise it returns the oldest placement that stands and is
// acknowledged, or whose provider has no agent.
func (s *State) acceptedPlacement(r *Reservation) *Placement {
	if r.Unclaimed {
		return nil
	}
	if p := r.Placement(r.MeteredPlacement); r.Stands(p) {
		return p
	}
	for i := range r.Placements {
		if p := &r.Placements[i]; r.Stands(p) && (!p.AcknowledgedAt.IsZero() || !s.HasAgent(p.Provider)) {
			return p
		}
	}
	return nil
}

// updateMeter changes the bill of a reservation if the latest event has changed what the reservation
// is metered for. It charges for the time until this event at the former price and amounts. before
// is the Meter before the event.
func (s *State) updateMeter(r *Reservation, before Meter) {
	if r == nil {
		return
	}
	s.lockAddedRates(r)
	p := s.acceptedPlacement(r)
	var after Meter
	if p != nil {
		after = r.meterOf(p)
	}
	if before.Equal(after) {
		return
	}
	bill := r.billAt(before, s.latest)
	r.MeteredPlacement = after.Placement
	switch {
	case r.Bill == nil && before.Price == nil && after.Price == nil:
		return // nothing was ever priced
	case r.Bill == nil && before.Placement == 0 && p.AcknowledgedAt == s.latest:
		return // the bill follows from the placement, see billAt
	}
	if after.Price != nil {
		bill.changeCurrency(after.Price.Currency)
		if after.Placement != before.Placement {
			bill.Charged = bill.Charged.Plus(money.Once(after.Price.Once))
		}
	}
	r.Bill = &bill
}

// billAt returns the bill of a reservation at a given time. m is what the reservation is charged
// for until then. If the first metered placement has not changed since it was acknowledged, no Bill
// is stored, to save memory; then billAt computes it from the placement.
func (r *Reservation) billAt(m Meter, at Instant) Bill {
	var b Bill
	switch {
	case r.Bill != nil:
		b = *r.Bill
	case m.Price != nil:
		b = Bill{Since: r.Placement(m.Placement).AcknowledgedAt, Currency: m.Price.Currency, Charged: money.Once(m.Price.Once)}
	}
	if m.Price != nil {
		b.Charged = b.Charged.Plus(money.Over(m.PerHour(), at.seconds()-b.Since.seconds()))
	}
	b.Since = at
	return b
}

// changeCurrency continues the bill in another currency. The sum so far moves to Earlier.
func (b *Bill) changeCurrency(code string) {
	if b.Currency == code {
		return
	}
	earlier := slices.Clone(b.Earlier)
	if b.Currency != "" && !b.Charged.IsZero() {
		earlier = append(earlier, Charge{b.Currency, b.Charged})
	}
	b.Currency, b.Charged = code, money.Sum{}
	if i := slices.IndexFunc(earlier, func(c Charge) bool { return c.Currency == code }); i >= 0 {
		b.Charged = earlier[i].Sum
		earlier = slices.Delete(earlier, i, i+1)
	}
	b.Earlier = earlier
}

// lockAddedRates adds rates to the locked price of a placement for resources that a change of
// amounts has added. It takes them from the provider's present offer.
func (s *State) lockAddedRates(r *Reservation) {
	for i := range r.Placements {
		p := &r.Placements[i]
		if amounts := r.AgreedWith(p); r.Stands(p) && p.Price.lacksRate(amounts) {
			asked := r.Request
			asked.Amounts = amounts
			p.Price = s.shared.internPrice(p.Price.withRates(s.Cluster(p.Provider).PriceFor(&asked), amounts))
		}
	}
}

// Cost is what a reservation costs per hour and has cost so far, for display.
type Cost struct {
	// PerHour is the locked price of the present placement, 0 if it has none. If Runs is true, it
	// has been charged since AsOf.
	PerHour money.Price
	Runs    bool
	// Currency is the currency of PerHour, SoFar and ToEnd.
	Currency string
	// NotPriced are the reserved resources without a price: those that the locked price leaves out, or
	// all if the present placement has no price.
	NotPriced []corev1.ResourceName
	// SoFar is the sum until AsOf, when the price or the amounts last changed.
	SoFar money.Sum
	AsOf  time.Time
	// ToEnd is the expected sum at the end of the duration, nil without a duration or a price.
	ToEnd *money.Sum
	// Earlier are sums that were charged in other currencies.
	Earlier []Charge
}

// Cost returns what a reservation costs, nil if it was never charged and has no standing placement
// with a price. The result depends on the book alone, so it changes only with an event of the
// reservation, not with time.
func (r *Reservation) Cost() *Cost {
	p, runs := r.Current(), r.MeteredPlacement != 0
	if runs {
		p = r.Placement(r.MeteredPlacement)
	}
	var m Meter
	if r.Stands(p) {
		m = r.meterOf(p)
	}
	if m.Price == nil && r.Bill == nil {
		return nil
	}
	bill := r.billSoFar(p, runs)
	if m.Price != nil {
		bill.changeCurrency(m.Price.Currency)
	}
	c := &Cost{
		PerHour: m.PerHour(), Runs: runs && m.Price != nil, Currency: bill.Currency,
		SoFar: bill.Charged, AsOf: bill.Since.Time(), Earlier: bill.Earlier,
	}
	if c.NotPriced = m.Amounts.Names(); m.Price != nil {
		c.NotPriced = m.Price.NotPriced
	}
	if m.Price != nil && r.Duration != 0 {
		toEnd, since := bill.Charged, bill.Since
		if !runs {
			toEnd, since = toEnd.Plus(money.Once(m.Price.Once)), p.AssignedAt
		}
		toEnd = toEnd.Plus(money.Over(c.PerHour, instantOf(r.Until).seconds()-since.seconds()))
		c.ToEnd = &toEnd
	}
	return c
}

// billSoFar returns the bill at the time when the price or the amounts last changed. It is empty if
// no placement has been metered yet.
func (r *Reservation) billSoFar(p *Placement, runs bool) Bill {
	switch {
	case r.Bill != nil:
		return *r.Bill
	case runs:
		return r.billAt(r.meterOf(p), p.AcknowledgedAt)
	}
	return Bill{}
}
