package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
)

// peering is how long it takes from asking for capacity to a Ready virtual node, beside
// liqoctl on the same two clusters, which run with real Liqo.
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
	row := func(name string, c local.Comparison) {
		ours, base := quantile(c.Request, .5), quantile(c.Liqoctl, .5)
		t.row(name, ours.Seconds()/base.Seconds(), atMost(1.05, .9, ""), "medians of %d: %s and %s", len(c.Request),
			ours.Round(10*time.Millisecond), base.Round(10*time.Millisecond))
	}
	row("request to Ready virtual node ÷ liqoctl peer and create resourceslice", times.Cold)
	row("the same of clusters that are peered ÷ liqoctl create resourceslice", times.Warm)
	return nil
}
