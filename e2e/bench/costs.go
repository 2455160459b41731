package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

const (
	costDays, costTenants = 90, 100
	// costCalls is the number of calls that a cluster may make without a pause.
	costCalls = 9
)

// costs measures how long a cluster waits for its costs of 90 days, if all of them but the current hour are stored.
var costs = atSite(func(ctx context.Context, _ settings, t *table, at *site) error {
	server, err := at.startAnswerer(ctx)
	if err != nil {
		return err
	}
	client, err := at.caller(clusterID(0), server.url)
	if err != nil {
		return err
	}
	if err := client.advertise(ctx, time.Now().UnixNano()); err != nil { // the event until which the figures reach
		return err
	}
	until := accounts.Hour.StartOf(time.Now())
	from := accounts.Day.StartOf(until).AddDate(0, 0, -costDays)
	parts := accounts.Cover(from, until, until, accounts.Month)
	if err := at.storeCosts(ctx, parts, client.id); err != nil {
		return err
	}
	var took []time.Duration
	for range costCalls {
		began := time.Now()
		list, err := answerOf[v1.CostList](client.api.ListCosts(ctx, &v1.ListCostsParams{From: from})) //nolint:bodyclose // answerOf closes it
		if err != nil {
			return err
		}
		if took = append(took, time.Since(began)); len(list.Rows) != costTenants*len(costResources) {
			return fmt.Errorf("%d rows, want %d of each tenant", len(list.Rows), len(costResources))
		}
	}
	slices.Sort(took)
	t.row("a cluster's costs of 90 days and 100 tenants, median", float64(took[len(took)/2].Milliseconds()), atMost(100, 0, "ms"),
		"%d stored periods of %d rows; longest %s", len(parts), costTenants*len(costResources), took[len(took)-1].Round(time.Millisecond))
	return nil
})

var costResources = []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, "nvidia.com/gpu"}

// storeCosts stores periods in which all tenants of a cluster reserved all resources.
func (s *site) storeCosts(ctx context.Context, parts []accounts.Part, requester string) error {
	store, err := journal.NewConfigMaps(s.plane.RESTConfig(), namespace)
	if err != nil {
		return err
	}
	for _, part := range parts {
		p := accounts.Period{Part: part}
		for i := range costTenants {
			for j, name := range costResources {
				rate := money.Price(1_000_003 * (i*len(costResources) + j + 1))
				f := accounts.Figures{Held: money.Over(rate, 86_399), Used: money.Over(rate, 40_001), Unobserved: money.Over(rate, 7), Money: money.Over(rate, 12_345)}
				f.Dearest = accounts.Comparison{Cost: money.Over(rate, 23_456), Paid: f.Money}
				p.Rows = append(p.Rows, accounts.Row{Key: accounts.Key{Tenant: fmt.Sprint("tenant-", i), Requester: requester, Provider: clusterID(1), Currency: "EUR"}, Resource: name, Figures: f})
			}
		}
		text, err := p.Encode()
		if err != nil {
			return err
		}
		objects, err := replay.PackPeriod(broker.JournalName, &p, text)
		if err != nil {
			return err
		}
		for _, obj := range objects {
			if _, err := store.Create(ctx, obj); err != nil {
				return err
			}
		}
	}
	return nil
}
