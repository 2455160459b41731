package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
)

// guardPeerings is how many peerings are measured after the guards were switched on or off.
const guardPeerings = 3

// peering measures the time from a request until its virtual node is Ready. It compares requests with liqoctl on the
// same two clusters, which run the real Liqo. It also compares requests with and without the guards of both
// clusters, and measures what the provider's agent promises in seconds.
func peering(ctx context.Context, s settings, t *table) (err error) {
	dir, err := os.MkdirTemp("", "peering-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	env, err := local.Up(ctx, local.Options{Dir: dir})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, env.Stop()) }()
	times, err := env.MeasurePeering(ctx, 4*s.peerings)
	if err != nil {
		return err
	}
	guards, err := env.MeasureGuards(ctx, 2*s.peerings, 1, guardPeerings)
	if err != nil {
		return err
	}
	promises, err := env.MeasurePromises(ctx, s.peerings)
	if err != nil {
		return err
	}
	row := func(name string, c local.Comparison, must float64) {
		ours, base := quantile(c.Request, .5), quantile(c.Liqoctl, .5)
		t.row(name, ours.Seconds()/base.Seconds(), atMost(must, 0, ""), "medians of %d: %s and %s", len(c.Request),
			ours.Round(10*time.Millisecond), base.Round(10*time.Millisecond))
	}
	row("request to Ready virtual node ÷ liqoctl peer and create resourceslice", times.Cold, .3)
	row("the same of clusters that are peered ÷ liqoctl create resourceslice", times.Warm, .85)
	guardRow := func(name string, c local.GuardComparison) {
		with, without := quantile(c.With, .5), quantile(c.Without, .5)
		t.row(name, with.Seconds()/without.Seconds(), atMost(1.05, 1, ""), "medians of %d: %s and %s", len(c.With),
			with.Round(10*time.Millisecond), without.Round(10*time.Millisecond))
	}
	guardRow("request to Ready virtual node with guards and webhooks ÷ without", guards.Cold)
	guardRow("the same of clusters that are peered", guards.Warm)
	promiseRow := func(name string, took []time.Duration, must float64) {
		t.row(name, quantile(took, 1).Seconds(), atMost(must, 0, "s"), "%d times; median %.2f s", len(took), quantile(took, .5).Seconds())
	}
	promiseRow("released request until its slice's identity may write no longer, longest", promises.Rights, 30)
	promiseRow("consumer's pod above the grant until it is evicted, longest", promises.Excess, 2)
	return nil
}
