package ledger

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Price is the price of a placement. It is locked when the placement is granted and must not be
// modified, because placements with equal prices share it. If a provider has no prices, its
// placements have a nil Price.
type Price struct {
	// Currency is an ISO 4217 code.
	Currency string `json:"currency"`
	// Rates are the prices per hour of one core, one GiB or one piece of each reserved resource,
	// and of one GiB of the request's data (corev1.ResourceStorage). A resource with a rate of 0 is
	// free, unless it is in NotPriced.
	Rates map[corev1.ResourceName]money.Price `json:"rates,omitempty"`
	// NotPriced are the reserved resources for which the provider names no price, sorted. Their
	// rate is 0.
	NotPriced []corev1.ResourceName `json:"notPriced,omitempty"`
	// Once is the price of the transfer of the request's data. It is charged when metering of the
	// placement begins.
	Once money.Price `json:"once,omitempty"`
	// Dearest is the price of the request on the most expensive candidate that could have served
	// the request and has prices in this currency. It is nil if no candidate was more expensive
	// than the provider, or if the broker did not compare candidates for the placement. The
	// accounts compare it with what was paid. No decision uses it.
	Dearest *Price `json:"dearest,omitempty"`
}

// Equal reports whether both prices have the same terms and the same Dearest.
func (p *Price) Equal(q *Price) bool {
	return p == q || p.HasTermsOf(q) && (p == nil || p.Dearest.Equal(q.Dearest))
}

// Prices reports whether the provider names a price for a resource. It returns false for a nil price.
func (p *Price) Prices(name corev1.ResourceName) bool {
	return p != nil && !slices.Contains(p.NotPriced, name)
}

// HasTermsOf reports whether both prices have the same currency, rates, NotPriced and Once. It
// ignores Dearest.
func (p *Price) HasTermsOf(q *Price) bool {
	if p == nil || q == nil {
		return p == q
	}
	return p.Currency == q.Currency && p.Once == q.Once && maps.Equal(p.Rates, q.Rates) && slices.Equal(p.NotPriced, q.NotPriced)
}

// ComparedWith returns a copy of p, the price of request r, with dearest as its Dearest. The Dearest
// of the copy has rates for exactly the resources of p: where one of the two names no price, it has
// the rate of p. The Dearest is nil if dearest is nil, is in another currency, or costs no more per hour than p.
// If p is nil, ComparedWith returns nil.
func (p *Price) ComparedWith(dearest *Price, r *Request) *Price {
	if p == nil {
		return nil
	}
	out := &Price{Currency: p.Currency, Rates: p.Rates, NotPriced: p.NotPriced, Once: p.Once}
	if dearest == nil || dearest.Currency != p.Currency {
		return out
	}
	d := &Price{Currency: p.Currency, Rates: maps.Clone(p.Rates), Once: dearest.Once}
	for name := range d.Rates {
		if rate, known := dearest.Rates[name]; known && dearest.Prices(name) && p.Prices(name) {
			d.Rates[name] = rate
		}
	}
	if data := requirements.DataBytes(r.Demands().Data); d.PerHour(r.Amounts, data) > p.PerHour(r.Amounts, data) {
		out.Dearest = d
	}
	return out
}

// String returns the price for error messages.
func (p *Price) String() string {
	if p == nil {
		return "none"
	}
	text := fmt.Sprintf("%s %v once %s", p.Currency, p.Rates, p.Once)
	if len(p.NotPriced) > 0 {
		text += fmt.Sprintf(" without a price for %v", p.NotPriced)
	}
	if p.Dearest != nil {
		text += fmt.Sprintf(" instead of %v once %s", p.Dearest.Rates, p.Dearest.Once)
	}
	return text
}

// PriceFor returns the price of a request by the cluster's present offer, nil if the cluster has no
// prices.
func (c *Cluster) PriceFor(r *Request) *Price {
	if !c.tariff.IsPriced() {
		return nil
	}
	p := &Price{Currency: c.tariff.Currency, Rates: make(map[corev1.ResourceName]money.Price, len(r.Amounts))}
	for name := range r.Amounts {
		rate, named := c.tariff.PerHour[name]
		if p.Rates[name] = rate; !named {
			p.NotPriced = append(p.NotPriced, name)
		}
	}
	slices.Sort(p.NotPriced)
	demands := r.Demands()
	if size := requirements.DataBytes(demands.Data); size > 0 {
		p.Rates[corev1.ResourceStorage] = c.tariff.Storage
		if from := demands.Data.Region; from != "" && from != c.Region {
			p.Once = c.tariff.Egress.Of(corev1.ResourceStorage, size)
		}
	}
	return p
}

// checkPrice returns an error unless the price follows from the provider's present offer. It does
// not compare Dearest with any offer: Dearest may be any price for the same resources in the same
// currency.
func (cs *clusters) checkPrice(provider string, r *Request, price *Price) error {
	c := cs.byID[provider]
	if c == nil {
		return fmt.Errorf("provider %q: %w", provider, ErrUnknown)
	}
	if want := c.PriceFor(r); !want.HasTermsOf(price) {
		return fmt.Errorf("provider %q: %w: price %v, its offer names %v", provider, ErrMalformed, price, want)
	}
	return price.checkDearest()
}

func (p *Price) checkDearest() error {
	if p == nil || p.Dearest == nil {
		return nil
	}
	d := p.Dearest
	if d.Currency != p.Currency || d.Dearest != nil || d.hasNegative() || !maps.EqualFunc(d.Rates, p.Rates, func(money.Price, money.Price) bool { return true }) {
		return fmt.Errorf("%w: price %v", ErrMalformed, p)
	}
	return nil
}

func (cs *clusters) checkGrant(provider string, r *Request, price *Price) error {
	if err := cs.checkFits(provider, r.Amounts); err != nil {
		return err
	}
	return cs.checkPrice(provider, r, price)
}

// checkStored returns an error for a price in a snapshot that no event can have created.
func (p *Price) checkStored() error {
	if p == nil {
		return nil
	}
	if !money.IsCurrency(p.Currency) || p.hasNegative() || slices.ContainsFunc(p.NotPriced, func(name corev1.ResourceName) bool { return p.Rates[name] != 0 }) {
		return fmt.Errorf("%w: price %v", ErrMalformed, p)
	}
	return p.checkDearest()
}

func (p *Price) hasNegative() bool {
	for _, rate := range p.Rates {
		if rate < 0 {
			return true
		}
	}
	return p.Once < 0
}

// PerHour returns the price of amounts and data for one hour: the sum of Share over all priced
// resources. It returns 0 for a nil price.
func (p *Price) PerHour(amounts quantity.Amounts, data int64) money.Price {
	var sum money.Price
	if p == nil {
		return sum
	}
	for name := range p.Rates {
		sum = sum.Plus(p.Share(name, amounts, data))
	}
	return sum
}

// Share returns what one resource of a placement costs for one hour, rounded half up to nine
// decimal places. data is the size of the request's data in bytes.
func (p *Price) Share(name corev1.ResourceName, amounts quantity.Amounts, data int64) money.Price {
	amount := amounts[name]
	if name == corev1.ResourceStorage {
		amount = data
	}
	return p.Rates[name].Of(name, amount)
}

// lacksRate reports whether amounts contain a resource without a rate, because it was added after
// the price was locked.
func (p *Price) lacksRate(amounts quantity.Amounts) bool {
	if p == nil {
		return false
	}
	for name := range amounts {
		if _, locked := p.Rates[name]; !locked {
			return true
		}
	}
	return false
}

// withRates returns the price with rates for all resources in amounts. It takes a missing rate from
// the price more if both have the same currency; otherwise the resource is not priced.
func (p *Price) withRates(more *Price, amounts quantity.Amounts) *Price {
	out := &Price{Currency: p.Currency, Rates: maps.Clone(p.Rates), NotPriced: slices.Clone(p.NotPriced), Once: p.Once}
	for name := range amounts {
		if _, locked := out.Rates[name]; locked {
			continue
		}
		if out.Rates[name] = 0; more.Prices(name) && more.Currency == p.Currency {
			out.Rates[name] = more.Rates[name]
		} else {
			out.NotPriced = append(out.NotPriced, name)
		}
	}
	slices.Sort(out.NotPriced)
	if p.Dearest != nil { // the dearest rates of the added resources are not known, so Dearest gets the rates of out
		out.Dearest = p.Dearest.withRates(out, amounts)
	}
	return out
}

func (s shared) internPrice(p *Price) *Price {
	if p == nil {
		return nil
	}
	return internIn(s.prices, string(p.appendKey(make([]byte, 0, 128))), p)
}

// appendKey appends a text that only equal prices have.
func (p *Price) appendKey(key []byte) []byte {
	key = append(key, p.Currency...)
	key = binary.BigEndian.AppendUint64(key, uint64(p.Once))
	for _, name := range slices.Sorted(maps.Keys(p.Rates)) {
		key = append(append(key, name...), 0)
		key = binary.BigEndian.AppendUint64(key, uint64(p.Rates[name]))
	}
	for _, name := range p.NotPriced {
		key = append(append(key, 1), name...)
	}
	if p.Dearest != nil {
		key = p.Dearest.appendKey(append(key, 0))
	}
	return key
}
