package accounts

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// Key identifies an account: who pays whom in which currency.
type Key struct {
	// Tenant is the tenant of the request. If the request has no tenant, it is the ID of the
	// requester.
	Tenant    string `json:"tenant"`
	Requester string `json:"requester"`
	Provider  string `json:"provider"`
	// Currency is an ISO 4217 code. It is "" for resources without a price.
	Currency string `json:"currency,omitempty"`
}

// pooled returns the key under which an entry is pooled. It leaves out the tenant, too.
func (k Key) pooled() Key {
	return Key{Tenant: k.Requester, Requester: k.Requester, Provider: Others, Currency: k.Currency}
}

func (k Key) compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Tenant, other.Tenant), cmp.Compare(k.Requester, other.Requester),
		cmp.Compare(k.Provider, other.Provider), cmp.Compare(k.Currency, other.Currency))
}

// Figures are sums over time. Sums of resources are in base units × seconds. For the unit of
// money, see money.Sum.
type Figures struct {
	// Held is what was reserved. Used is the part of Held that pods used. Unobserved is the part
	// of Held whose use is not known, because the broker did not run or the provider's agent did
	// not report.
	Held       money.Sum `json:"held"`
	Used       money.Sum `json:"used,omitzero"`
	Unobserved money.Sum `json:"unobserved,omitzero"`
	// Money is what the reserved capacity cost.
	Money money.Sum `json:"money,omitzero"`
	// Dearest compares Money with the prices of the most expensive candidates that could have
	// served the placements. List compares Money with the administrator's list price.
	Dearest Comparison `json:"dearest,omitzero"`
	List    Comparison `json:"list,omitzero"`
}

// Comparison compares what was paid for capacity (Paid) with what the same capacity would have cost
// at another price (Cost). It covers only the capacity for which the other price is known, so Paid
// is a part of Money. The saving is Cost − Paid.
type Comparison struct {
	Cost money.Sum `json:"cost,omitzero"`
	Paid money.Sum `json:"paid,omitzero"`
}

// Add adds d to the comparison.
func (c *Comparison) Add(d Comparison) { c.Cost, c.Paid = c.Cost.Plus(d.Cost), c.Paid.Plus(d.Paid) }

func (f *Figures) add(g Figures) {
	f.Held, f.Used, f.Unobserved = f.Held.Plus(g.Held), f.Used.Plus(g.Used), f.Unobserved.Plus(g.Unobserved)
	f.Money = f.Money.Plus(g.Money)
	f.Dearest.Add(g.Dearest)
	f.List.Add(g.List)
}

// Row holds the figures of one account for one resource in one period.
type Row struct {
	Key
	Resource corev1.ResourceName `json:"resource"`
	Figures
}

func compareRows(a, b Row) int {
	return cmp.Or(a.Key.compare(b.Key), cmp.Compare(a.Resource, b.Resource))
}

// Line says how much of one resource a placement holds. When an amount changes, the caller
// replaces the entry by an entry with other lines.
type Line struct {
	Resource corev1.ResourceName
	// Held, Used and Unobserved are in base units. See Figures for their meaning. Neither Used
	// nor Unobserved exceeds Held.
	Held, Used, Unobserved int64
	// PerHour is the locked price of Held for one hour. If NotPriced is true, there is none.
	PerHour   money.Price
	NotPriced bool
	// Dearest and List are other prices of Held for one hour.
	Dearest, List OtherPrice
}

// OtherPrice is a price with which a locked price is compared. It is valid only if Known is true.
type OtherPrice struct {
	PerHour money.Price
	Known   bool
}

// comparisonWith compares the price paid with o, for one second.
func (o OtherPrice) comparisonWith(paid money.Price) Comparison {
	if !o.Known {
		return Comparison{}
	}
	return Comparison{money.Over(o.PerHour, 1), money.Over(paid, 1)}
}

// Entry is a placement whose resources are added up.
type Entry struct {
	// ID is the name of the placement.
	ID string
	Key
	Lines []Line
}

// native are the resources that pooled entries keep apart.
var native = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, corev1.ResourcePods, corev1.ResourceStorage}

// pooled returns an entry as it is pooled: all resources that are not native count as one.
func (e *Entry) pooled() *Entry {
	out := &Entry{ID: e.ID, Key: e.Key.pooled(), Lines: slices.Clone(e.Lines)}
	for i := range out.Lines {
		if l := &out.Lines[i]; !slices.Contains(native, l.Resource) {
			l.Resource = Others
		}
	}
	return out
}

// eachAccount calls f once for each account to which the entry belongs: resources without a price are
// in an account without a currency, so that nobody takes them for free.
func (e *Entry) eachAccount(f func(*Entry)) {
	if e.Currency == "" || !slices.ContainsFunc(e.Lines, func(l Line) bool { return l.NotPriced }) {
		f(e)
		return
	}
	priced, rest := &Entry{ID: e.ID, Key: e.Key}, &Entry{ID: e.ID + "-not-priced", Key: e.Key}
	rest.Currency = ""
	for _, l := range e.Lines {
		part := priced
		if l.NotPriced {
			part = rest
		}
		part.Lines = append(part.Lines, l)
	}
	f(priced)
	f(rest)
}
