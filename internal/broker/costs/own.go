package costs

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// longestOwn is the longest time that one call of ReadOwn covers, by the period of its rows. Such a call reads about 150
// stored periods.
var longestOwn = map[accounts.Span]time.Duration{
	accounts.Hour: 100 * time.Hour, accounts.Day: 100 * 24 * time.Hour, accounts.Month: 3 * 366 * 24 * time.Hour, "": 3 * 366 * 24 * time.Hour,
}

// Own is what ReadOwn returns: sums for each period of the span, or for the whole span.
type Own struct {
	From, To time.Time
	Rows     []view.AccountRow
	// Deleted names the periods whose rows are missing.
	Deleted []string
}

// List converts the sums to the type of the REST API.
func (o *Own) List() *v1.CostList {
	out := &v1.CostList{From: o.From, To: o.To, Deleted: o.Deleted, Rows: make([]v1.CostRow, len(o.Rows))}
	for i := range o.Rows {
		r := &o.Rows[i]
		row := v1.CostRow{
			From: r.From, To: r.To, Tenant: r.Tenant, RequesterID: r.Requester, ProviderID: r.Provider,
			Resource: string(r.Resource), Unit: view.HoursUnit(r.Resource), Currency: r.Currency,
		}
		if r.Currency != "" {
			row.Cost = r.Money.Money().String()
		}
		if !r.Held.IsZero() {
			row.Reserved, row.Used, row.Unobserved = view.HoursOf(r.Resource, r.Held).String(), view.HoursOf(r.Resource, r.Used).String(), view.HoursOf(r.Resource, r.Unobserved).String()
		}
		out.Rows[i] = row
	}
	return out
}

// ReadOwn adds up the accounts of one cluster, see replay.NewOwnAccounts, in ended hours. Where the cluster is the
// provider, the tenants of the requester are added up: they are not the provider's business.
func ReadOwn(ctx context.Context, from *replay.Accounts, span Span, clusterID string) (*Own, error) {
	if span.From.IsZero() {
		span.From = accounts.Month.StartOf(from.Until())
	}
	if span.To.IsZero() || span.To.After(from.Until()) {
		span.To = from.Until()
	}
	out := &Own{From: span.From, To: span.To}
	if !span.From.Before(span.To) {
		return out, nil
	}
	if most := longestOwn[span.Period]; span.To.Sub(span.From) > most {
		return nil, fault.New(fault.Invalid, "the time from %s to %s is longer than %s: ask for a shorter time, or for rows of a longer period", span.From.Format(time.RFC3339), span.To.Format(time.RFC3339), most)
	}
	rows, deleted, err := span.readRows(ctx, from)
	if err != nil {
		return nil, err
	}
	out.Deleted = deleted
	type key struct {
		from time.Time
		accounts.Key
		corev1.ResourceName
	}
	at := map[key]int{}
	for i := range rows {
		r := &rows[i]
		if r.Requester != clusterID {
			r.Tenant = ""
		}
		if span.Period == "" {
			r.From, r.To = span.From, span.To
		} else {
			r.From = span.Period.StartOf(r.From)
			if r.To = span.Period.After(r.From); r.To.After(span.To) {
				r.To = span.To
			}
		}
		k := key{r.From, accounts.Key{Tenant: r.Tenant, Requester: r.Requester, Provider: r.Provider, Currency: r.Currency}, r.Resource}
		if j, known := at[k]; known {
			out.Rows[j].Add(r.AccountSums)
			continue
		}
		at[k] = len(out.Rows)
		out.Rows = append(out.Rows, *r)
	}
	return out, nil
}
