package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/costs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// ListCosts implements the server's Broker: it returns the rows of the accounts in which the cluster
// is the requester or the provider. It reads stored periods without holding the lock.
func (b *Broker) ListCosts(ctx context.Context, clusterID string, q *v1.ListCostsParams) (*v1.CostList, error) {
	span := costs.Span{From: q.From.UTC(), To: q.To.UTC(), Period: accounts.Span(q.Period)}
	if err := span.Check(); err != nil {
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	var read *replay.Accounts
	err := b.commitPlan(ctx, func(s *session) error {
		read = replay.NewOwnAccounts(b.opts.Store, JournalName, s.journal.ID(), clusterID, s.whole)
		return nil
	})
	if err != nil {
		return nil, err
	}
	own, err := costs.ReadOwn(ctx, read, span, clusterID)
	if err != nil {
		return nil, err
	}
	out := &v1.CostList{From: own.From, To: own.To, Deleted: own.Deleted, Rows: make([]v1.CostRow, len(own.Rows))}
	for i := range own.Rows {
		r := &own.Rows[i]
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
	return out, nil
}
