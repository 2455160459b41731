package app

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/costs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// journalShown is how long the console shows what it has read of the journal. Reading it again takes seconds for a large
// broker, and could change the rows while the user turns pages.
const journalShown = time.Minute

// consoleCosts reads the accounts for the console with the user's rights, when the user opens the page Costs.
type consoleCosts struct {
	connection *connection
	now        func() time.Time

	mu     sync.Mutex
	read   *replay.Accounts
	readAt time.Time
}

var _ console.CostSource = (*consoleCosts)(nil)

// accounts reads the accounts, or returns those that it has read less than journalShown ago. The caller must
// hold mu.
func (r *consoleCosts) accounts(ctx context.Context) (*replay.Accounts, error) {
	if r.read != nil && r.now().Sub(r.readAt) < journalShown {
		return r.read, nil
	}
	read, err := r.connection.openAccounts(ctx, defaultJournal)
	if err != nil {
		return nil, err
	}
	r.read, r.readAt = read, r.now()
	return read, nil
}

// Cost implements console.CostSource.
func (r *consoleCosts) Cost(ctx context.Context, q console.CostQuery) (*view.Cost, error) {
	span, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	by, err := costs.ParseGroup(q.By, costs.Groups, "a broker")
	if err != nil {
		return nil, fmt.Errorf("by %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	read, err := r.accounts(ctx)
	if err != nil {
		return nil, err
	}
	return costs.Read(ctx, read, span, by)
}

// Focus implements console.CostSource.
func (r *consoleCosts) Focus(ctx context.Context, q console.CostQuery) ([]byte, error) {
	span, err := spanOf(q)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	read, err := r.accounts(ctx)
	if err != nil {
		return nil, err
	}
	focus, err := costs.ReadFocus(ctx, read, span)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = focus.Write(&out)
	return out.Bytes(), err
}

// spanOf parses the time of a query. It returns an error if the time does not begin and end with a period of
// the query.
func spanOf(q console.CostQuery) (span costs.Span, err error) {
	if span.Period, err = costs.ParsePeriod(q.Period); err != nil {
		return span, fmt.Errorf("period %w", err)
	}
	if span.From, err = costs.ParseHour(q.From); err != nil {
		return span, fmt.Errorf("from: %w", err)
	}
	if span.To, err = costs.ParseHour(q.To); err != nil {
		return span, fmt.Errorf("to: %w", err)
	}
	if !span.IsBegin(span.From) || !span.IsBegin(span.To) {
		return span, fmt.Errorf("rows for each %s need times at which a %s begins", q.Period, q.Period)
	}
	return span, nil
}
