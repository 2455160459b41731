package replay

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// Egress is the name of the resource under which the accounts charge for the transfer of data.
const Egress corev1.ResourceName = "egress"

// ApplyEvent applies a checked event to the ledger, and adds it to the accounts and the history.
func (k *Book) ApplyEvent(checked ledger.Checked, e *ledger.Event, position uint64) {
	switch change := e.Change.(type) {
	case *ledger.Configure:
		k.applyConfigure(checked, position)
		return
	case *ledger.Forget:
		k.addForgotten(change)
	case *ledger.CloseBatch:
		k.History.Close(batchClosedBy(change), change.Rows)
	}
	clusterID, name := k.clusterUsedIn(e), e.Reservation()
	before := k.State.Reservation(name).Metered()
	used := k.entriesOn(clusterID)
	checked.Apply(position)
	k.Costs.Advance(k.State.Latest())
	r := k.State.Reservation(name)
	if after := r.Metered(); !after.Equal(before) {
		k.Costs.Replace(k.entryOf(r, before), k.entryOf(r, after))
		if after.Placement != before.Placement && after.Price != nil {
			k.Costs.Charge(KeyOf(r, after), Egress, after.Price.Once, dearestTransfer(after.Price))
		}
	}
	for i, now := range k.entriesOn(clusterID) {
		if !slices.Equal(used[i].Lines, now.Lines) {
			k.Costs.Replace(used[i], now)
		}
	}
	if closed, ok := e.Change.(*ledger.ClosePeriod); ok {
		k.Costs.Drop(closedBy(closed))
	}
}

// CheckEvent returns an error if the event closes a period of the accounts or a batch of the history
// that cannot be closed: it has not ended, was closed before, or has other rows.
func (k *Book) CheckEvent(e *ledger.Event) error {
	switch closed := e.Change.(type) {
	case *ledger.ClosePeriod:
		return k.Costs.CheckDrop(closedBy(closed))
	case *ledger.CloseBatch:
		return k.History.CheckClose(batchClosedBy(closed), closed.Rows)
	}
	return nil
}

func closedBy(c *ledger.ClosePeriod) accounts.Closed {
	return accounts.Closed{Link: accounts.Link{Period: c.Period, Hash: c.Hash}, KeptFrom: c.KeptFrom}
}

// clusterUsedIn returns the cluster for whose placements an event may change the reported usage, or
// whether usage is reported at all; "" if there is none.
func (k *Book) clusterUsedIn(e *ledger.Event) string {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		if c := k.State.Cluster(change.ClusterID); c == nil || len(c.Used)+len(change.Used) == 0 && c.Agent == (c.Agent || change.Agent) {
			return ""
		}
		return change.ClusterID
	case *ledger.Usage:
		return change.ClusterID
	case *ledger.Silence:
		return change.ClusterID
	}
	return ""
}

// entriesOn returns the entries in the accounts of all metered placements on a provider, sorted by
// the names of their reservations.
func (k *Book) entriesOn(provider string) []*accounts.Entry {
	c := k.State.Cluster(provider)
	if c == nil {
		return nil
	}
	var out []*accounts.Entry
	for _, name := range c.Reservations() {
		r := k.State.Reservation(name)
		if m := r.Metered(); m.Provider == provider {
			out = append(out, k.entryOf(r, m))
		}
	}
	return out
}

func (k *Book) entryOf(r *ledger.Reservation, m ledger.Meter) *accounts.Entry {
	if m.Placement == 0 {
		return nil
	}
	c, id := k.State.Cluster(m.Provider), brokerv1alpha1.PlacementName(r.Name, m.Placement)
	e := &accounts.Entry{ID: id, Key: KeyOf(r, m), Lines: make([]accounts.Line, 0, len(m.Amounts)+1)}
	used, observed := c.Used[id], c.Agent && c.LostSince.IsZero()
	for _, name := range m.Amounts.Names() {
		l := k.lineOf(&m, name, m.Amounts[name])
		if observed {
			l.Used = min(used[name], l.Held)
		} else {
			l.Unobserved = l.Held
		}
		e.Lines = append(e.Lines, l)
	}
	if m.Data > 0 {
		l := k.lineOf(&m, corev1.ResourceStorage, m.Data)
		l.Used = m.Data
		e.Lines = append(e.Lines, l)
	}
	return e
}

func (k *Book) lineOf(m *ledger.Meter, name corev1.ResourceName, held int64) accounts.Line {
	l := accounts.Line{Resource: name, Held: held, PerHour: m.Share(name)}
	if l.NotPriced = !m.Price.Prices(name); l.NotPriced {
		return l
	}
	if d := m.Price.Dearest; d != nil {
		l.Dearest = accounts.OtherPrice{PerHour: d.Share(name, m.Amounts, m.Data), Known: true}
	}
	if k.list != nil && k.list.Currency == m.Price.Currency {
		if _, listed := k.list.Rates[name]; listed {
			l.List = accounts.OtherPrice{PerHour: k.list.Share(name, m.Amounts, m.Data), Known: true}
		}
	}
	return l
}

// dearestTransfer returns the price of the transfer of the request's data on the most expensive
// candidate. PerHour of the result is this price, although it is paid only once.
func dearestTransfer(p *ledger.Price) accounts.OtherPrice {
	if p.Dearest == nil {
		return accounts.OtherPrice{}
	}
	return accounts.OtherPrice{PerHour: p.Dearest.Once, Known: true}
}

// KeyOf returns the account to which a metered placement belongs.
func KeyOf(r *ledger.Reservation, m ledger.Meter) accounts.Key {
	key := accounts.Key{Tenant: cmp.Or(r.Tenant, r.Requester), Requester: r.Requester, Provider: m.Provider}
	if m.Price != nil {
		key.Currency = m.Price.Currency
	}
	return key
}
