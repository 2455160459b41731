package ledger

import (
	"fmt"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// naivePrice is the price of a grant: a fraction for one unit of each resource and hour.
type naivePrice struct {
	currency string
	rates    map[corev1.ResourceName]*big.Rat
	// free are the resources with a price of 0. Those with a rate of 0 that are not in it are not priced.
	free map[corev1.ResourceName]bool
}

// naivePeriod is a time in which the grant, the price and the cost per hour of an entry stay the
// same. It lasts until the next period of the entry.
type naivePeriod struct {
	from  time.Time
	grant *naiveGrant
	price *naivePrice
	hour  *big.Rat
}

// quotedBy returns the price of amounts under a cluster's last offer, nil if it names none.
func (n *naive) quotedBy(cluster string, amounts quantity.Amounts) *naivePrice {
	c := n.clusters[cluster]
	if c == nil || c.last.Cost == nil {
		return nil
	}
	p := &naivePrice{c.last.Cost.Currency, map[corev1.ResourceName]*big.Rat{}, map[corev1.ResourceName]bool{}}
	for name := range amounts {
		text := map[corev1.ResourceName]string{corev1.ResourceCPU: c.last.Cost.CPUCost, gpu: string(c.last.Cost.ResourceCosts[gpu])}[name]
		p.rates[name] = new(big.Rat)
		if text != "" {
			p.rates[name].SetString(text)
			p.free[name] = p.rates[name].Sign() == 0
		}
	}
	return p
}

// notPriced returns the names of the resources that are not priced, sorted.
func (p *naivePrice) notPriced() []corev1.ResourceName {
	var out []corev1.ResourceName
	for _, name := range slices.Sorted(maps.Keys(p.rates)) {
		if p.rates[name].Sign() == 0 && !p.free[name] {
			out = append(out, name)
		}
	}
	return out
}

// equals reports whether p and a price in the book are the same.
func (p *naivePrice) equals(got *Price) bool {
	if p == nil || got == nil {
		return (p == nil) == (got == nil)
	}
	if got.Currency != p.currency || len(got.Rates) != len(p.rates) || got.Once != 0 || !slices.Equal(got.NotPriced, p.notPriced()) {
		return false
	}
	for name, rate := range p.rates {
		if new(big.Rat).SetFrac64(int64(got.Rates[name]), int64(money.Unit)).Cmp(rate) != 0 {
			return false
		}
	}
	return true
}

// toPrice returns the price in the form of an event; nil for nil.
func (p *naivePrice) toPrice() *Price {
	if p == nil {
		return nil
	}
	out := &Price{Currency: p.currency, Rates: map[corev1.ResourceName]money.Price{}, NotPriced: p.notPriced()}
	for name, rate := range p.rates {
		billionths := new(big.Rat).Mul(rate, big.NewRat(int64(money.Unit), 1))
		out.Rates[name] = money.Price(billionths.Num().Int64())
	}
	return out
}

// hourOf returns the price of amounts for one hour. Each resource is rounded half up to nine
// places, and limited, like the sum, to what an int64 of billionths can hold.
func (p *naivePrice) hourOf(amounts quantity.Amounts) *big.Rat {
	sum, most := new(big.Rat), big.NewRat(math.MaxInt64, int64(money.Unit))
	limited := func(r *big.Rat) *big.Rat {
		if r.Cmp(most) > 0 {
			return most
		}
		return r
	}
	for name, rate := range p.rates {
		units := big.NewRat(amounts[name], 1)
		if name == corev1.ResourceCPU {
			units = big.NewRat(amounts[name], 1000)
		}
		rounded, _ := new(big.Rat).SetString(units.Mul(units, rate).FloatString(9))
		sum = new(big.Rat).Set(limited(sum.Add(sum, limited(rounded))))
	}
	return sum
}

// namedIn returns a pointer to the price of an event that grants or reprices a placement, with the
// provider and the amounts that it is for; nil for other events.
func (n *naive) namedIn(e *Event) (price **Price, provider string, amounts quantity.Amounts) {
	amountsOf := func(name string) quantity.Amounts {
		if entry := n.findEntry(name); entry != nil {
			return entry.amounts
		}
		return nil
	}
	switch change := e.Change.(type) {
	case *Reserve:
		return &change.Price, change.Provider, change.Amounts
	case *HoldQuote:
		return &change.Price, change.Provider, change.Amounts
	case *TakeQuote:
		return &change.Price, change.Provider, change.Amounts
	case *Move:
		return &change.Price, change.Provider, amountsOf(change.Name)
	case *Heal:
		return &change.Price, change.Provider, amountsOf(change.Name)
	case *Grant:
		return &change.Price, change.Provider, amountsOf(change.Name)
	case *Adopt:
		if known := amountsOf(change.Name); known != nil {
			return &change.Price, change.Provider, known
		}
		return &change.Price, change.Provider, change.Amounts
	case *Renew:
		if entry := n.findEntry(change.Name); change.Repriced && entry != nil && n.newestGrant(entry) != nil {
			return &change.Price, n.newestGrant(entry).provider, entry.amounts
		}
	}
	return nil, "", nil
}

// expectedPrice returns the only price that an event may name. If the event takes a held quote,
// that is the price of the quote, otherwise that of the provider's last offer.
func (n *naive) expectedPrice(e *Event, provider string, amounts quantity.Amounts) *naivePrice {
	if take, ok := e.Change.(*TakeQuote); ok {
		if h := n.findHold(take.Quote); h != nil {
			return n.heldPrices[h.kept.Name]
		}
	}
	return n.quotedBy(provider, amounts)
}

// priceEvent names the right price in an event, or now and then a wrong one. It always returns the
// right one.
func (m *machine) priceEvent(e *Event) *naivePrice {
	price, provider, amounts := m.naive.namedIn(e)
	if price == nil {
		return nil
	}
	expected := m.naive.expectedPrice(e, provider, amounts)
	right := expected.toPrice()
	if *price = right; m.tried%24 != 5 {
		_, kept := e.Change.(*HoldQuote)
		if _, taken := e.Change.(*TakeQuote); right != nil && !kept && !taken && m.tried%3 == 0 {
			dearer := &Price{Currency: right.Currency, Rates: maps.Clone(right.Rates)}
			for name := range dearer.Rates {
				dearer.Rates[name] += money.Unit
			}
			(*price).Dearest = dearer
		}
		return expected
	}
	if *price = (&Price{Currency: "XXX"}); right != nil {
		(*price).Rates = maps.Clone(right.Rates)
		(*price).Currency, (*price).NotPriced = right.Currency, right.NotPriced
		(*price).Rates[corev1.ResourceCPU]++
	}
	return expected
}

// refusesPrice reports whether an event names another price than the expected one.
func (n *naive) refusesPrice(e *Event) bool {
	price, provider, amounts := n.namedIn(e)
	return price != nil && !n.expectedPrice(e, provider, amounts).equals(*price)
}

// refusalsToReprice returns the reasons why a reservation cannot get a new price.
func (n *naive) refusalsToReprice(e *Renew) []error {
	entry := n.findEntry(e.Name)
	if !e.Repriced || entry == nil {
		return nil
	}
	if standing := n.standingGrants(entry); entry.duration != 0 || len(standing) != 1 {
		return []error{ErrTaken}
	}
	return nil
}

// notePrices notes the prices that an event has set, after the event was recorded.
func (n *naive) notePrices(e *Event, price *naivePrice) {
	n.latest = e.At
	if keep, ok := e.Change.(*HoldQuote); ok {
		n.heldPrices[keep.Name] = price
	}
	for _, g := range n.grants {
		if _, known := n.prices[g]; !known && !g.lost {
			n.prices[g] = price
		}
	}
	if r, ok := e.Change.(*Renew); ok && r.Repriced {
		n.prices[n.newestGrant(n.findEntry(r.Name))] = price
	}
	for _, entry := range n.entries {
		n.noteMetered(entry)
	}
}

// noteMetered begins a new period of an entry if the serving grant, its price or its hourly cost
// has changed.
func (n *naive) noteMetered(entry *naiveEntry) {
	all := n.periods[entry]
	last := naivePeriod{}
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	next := naivePeriod{from: n.latest, hour: new(big.Rat)}
	if last.grant != nil && last.grant.isStanding() {
		next.grant = last.grant
	}
	for _, g := range n.grantsOf(entry) {
		if next.grant == nil && g.isStanding() && !entry.unclaimed && (!g.acked.IsZero() || !n.hasAgent(g.provider)) {
			next.grant = g
		}
		n.lockNewRates(g)
	}
	if g := next.grant; g != nil && n.prices[g] != nil {
		next.price = n.prices[g]
		next.hour = next.price.hourOf(n.kept[g])
	}
	if next.grant != last.grant || next.price != last.price || last.hour != nil && next.hour.Cmp(last.hour) != 0 {
		n.periods[entry] = append(all, next)
	}
}

// lockNewRates locks the provider's present price for each resource that a change has added to a
// grant.
func (n *naive) lockNewRates(g *naiveGrant) {
	p := n.prices[g]
	if p == nil || !g.isStanding() {
		return
	}
	for name := range n.kept[g] {
		if _, locked := p.rates[name]; locked {
			continue
		}
		now := n.quotedBy(g.provider, n.kept[g])
		more := &naivePrice{p.currency, maps.Clone(p.rates), maps.Clone(p.free)}
		if more.rates[name] = new(big.Rat); now != nil && now.currency == p.currency {
			more.rates[name], more.free[name] = now.rates[name], now.free[name]
		}
		p, n.prices[g] = more, more
	}
}

// costOf adds up what an entry has cost until now, by currency.
func (n *naive) costOf(entry *naiveEntry) map[string]*big.Rat {
	out := map[string]*big.Rat{}
	all := n.periods[entry]
	for i, period := range all {
		until := n.latest
		if i+1 < len(all) {
			until = all[i+1].from
		}
		if period.price == nil {
			continue
		}
		cost := big.NewRat(until.Unix()-period.from.Unix(), 3600)
		if out[period.price.currency] == nil {
			out[period.price.currency] = new(big.Rat)
		}
		out[period.price.currency].Add(out[period.price.currency], cost.Mul(cost, period.hour))
	}
	return out
}

// costsDiffer returns an error if the book has another cost for a reservation.
func (n *naive) costsDiffer(s *State) error {
	for _, entry := range n.entries {
		got := map[string]*big.Rat{}
		add := func(currency string, sum money.Sum) {
			if !sum.IsZero() {
				got[currency] = new(big.Rat).SetFrac(sum.Int(), big.NewInt(3600*int64(money.Unit)))
			}
		}
		if c := s.Reservation(entry.name).Cost(); c != nil {
			sum := c.SoFar
			if c.Runs {
				sum = sum.Plus(money.Over(c.PerHour, s.Latest().Unix()-c.AsOf.Unix()))
			}
			add(c.Currency, sum)
			for _, earlier := range c.Earlier {
				add(earlier.Currency, earlier.Sum)
			}
		}
		want := n.costOf(entry)
		maps.DeleteFunc(want, func(_ string, sum *big.Rat) bool { return sum.Sign() == 0 })
		if !maps.EqualFunc(got, want, func(a, b *big.Rat) bool { return a.Cmp(b) == 0 }) {
			return fmt.Errorf("reservation %s has cost %v, want %v", entry.name, got, want)
		}
	}
	return nil
}

// anyCost returns nil or a price list in one of two currencies.
func (m *machine) anyCost(c choose) *brokerv1alpha1.Cost {
	if c(3) == 0 {
		return nil
	}
	out := &brokerv1alpha1.Cost{Currency: oneOf(c, "EUR", "EUR", "USD"), CPUCost: oneOf(c, "0.2", "0.000000003", "7", "0", strconv.Itoa(c(1000)))}
	if c(2) == 0 {
		out.ResourceCosts = map[corev1.ResourceName]brokerv1alpha1.Price{gpu: brokerv1alpha1.Price(oneOf(c, "1.5", "0.333333333"))}
	}
	return out
}
