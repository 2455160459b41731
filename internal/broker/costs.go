package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/costs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// ListCosts implements the server's Broker: it returns the rows of the accounts in which the cluster
// is the requester or the provider. It reads stored periods without holding the lock.
func (b *Broker) ListCosts(ctx context.Context, clusterID string, q *v1.ListCostsParams) (*v1.CostList, error) {
	span := costs.Span{From: q.From.UTC(), To: q.To.UTC()}
	if q.Period != nil {
		span.Period = accounts.Span(*q.Period)
	}
	if err := span.Check(); err != nil {
		return nil, fault.New(fault.Invalid, "%v", err)
	}
	read, err := answerPlan(ctx, b, "", func(s *session) (*replay.Accounts, error) {
		return replay.NewOwnAccounts(b.opts.Store, &s.costPeriods, JournalName, s.journal.ID(), clusterID, s.whole), nil
	})
	if err != nil {
		return nil, err
	}
	own, err := costs.ReadOwn(ctx, read, span, clusterID)
	if err != nil {
		return nil, err
	}
	return own.List(), nil
}
