package replay

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// listPriceIn returns the list price in a recorded configuration, nil if the configuration has none.
// Resources that the list does not price have no rate.
func listPriceIn(c *ledger.Configuration) *ledger.Price {
	var document struct {
		Accounts struct {
			ListPrice *brokerv1alpha1.Cost `json:"listPrice"`
		} `json:"accounts"`
	}
	if json.Unmarshal(c.Document, &document) != nil || document.Accounts.ListPrice == nil {
		return nil
	}
	tariff := money.ReadTariff(document.Accounts.ListPrice)
	if !tariff.IsPriced() {
		return nil
	}
	out := &ledger.Price{Currency: tariff.Currency, Rates: tariff.PerHour}
	if document.Accounts.ListPrice.StorageCost != "" {
		out.Rates[corev1.ResourceStorage] = tariff.Storage
	}
	return out
}

// applyConfigure applies a change of the configuration. If the list price changes, the accounts compare
// all reservations with the new list price from then on.
func (k *Book) applyConfigure(checked ledger.Checked, position uint64) {
	checked.Apply(position)
	k.Costs.Advance(k.State.Latest())
	list := listPriceIn(k.State.Configuration())
	if list.Equal(k.list) {
		return
	}
	before := k.allEntries()
	k.list = list
	for i, now := range k.allEntries() {
		if !slices.Equal(before[i].Lines, now.Lines) {
			k.Costs.Replace(before[i], now)
		}
	}
}

// allEntries returns one entry for each metered placement, sorted by the names of the reservations.
func (k *Book) allEntries() []*accounts.Entry {
	var names []string
	k.State.Reservations(func(r *ledger.Reservation) { names = append(names, r.Name) })
	slices.Sort(names)
	var out []*accounts.Entry
	for _, name := range names {
		r := k.State.Reservation(name)
		if e := k.entryOf(r, r.Metered()); e != nil {
			out = append(out, e)
		}
	}
	return out
}
