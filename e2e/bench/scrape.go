package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// scrapedReservations is the number of reservations of a broker that is scraped.
	scrapedReservations = 10_000
	// scrapes is how many scrapes are timed while the broker rests. Slices are scrapeSlice times as long as those of
	// other studies, and the broker is scraped once in each: as often as every 15 s with the usual slice.
	scrapes, scrapeSlice = 9, 15
)

// scrape measures a scrape of a broker with a large fleet, and its effect on quotes, which the broker answers from
// memory: next to the journal's write, a scrape would not show.
var scrape = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	broker, err := at.startAnswerer(ctx)
	if err != nil {
		return err
	}
	s.reservations, s.slice, s.rounds = min(s.reservations, scrapedReservations), scrapeSlice*s.slice, min(s.rounds, 3)
	if err := broker.sendCommand(ctx, "lend", s.clusters); err != nil {
		return err
	}
	if err := broker.sendCommand(ctx, "fill", s.reservations); err != nil {
		return err
	}
	var size int64
	var took []time.Duration
	for range scrapes {
		began := time.Now()
		if size, err = broker.scrapeMetrics(ctx); err != nil {
			return err
		}
		took = append(took, time.Since(began))
	}
	t.row("scrape of a large broker, median", milliseconds(quantile(took, .5)), atMost(1000, 0, "ms"),
		"%d clusters, %d reservations; %.0f kB, not compressed; longest %.0f ms", s.clusters, s.reservations, float64(size)/1000, milliseconds(quantile(took, 1)))

	const clients = 4
	callers, err := at.connectAll(clients, "client", broker.url)
	if err != nil {
		return err
	}
	quote := func(ctx context.Context, client int) error {
		_, err := callers[client].RequestQuote(ctx, "", oneCPU())
		return err
	}
	var next atomic.Int64 // when the next scrape is due
	var scraping sync.WaitGroup
	defer scraping.Wait()
	scraped := func(ctx context.Context, client int) error {
		now := time.Now()
		if due := next.Load(); now.UnixNano() > due && next.CompareAndSwap(due, now.Add(s.slice).UnixNano()) {
			scraping.Go(func() { _, _ = broker.scrapeMetrics(ctx) }) // it succeeded before
		}
		return quote(ctx, client)
	}
	rounds, err := compare(ctx, s, clients, at.pids(broker), scraped, quote)
	if err != nil {
		return err
	}
	t.row("p99 of answers while scraped ÷ otherwise", medianOf(rounds, func(r round) float64 { return r.ours.at(.99) / r.bare.at(.99) }), atMost(1.02, 0, ""),
		"%.2f ms ÷ %.2f ms; quotes of %d clients, one scrape in %s", medianOf(rounds, func(r round) float64 { return r.ours.at(.99) }),
		medianOf(rounds, func(r round) float64 { return r.bare.at(.99) }), clients, s.slice)
	return nil
})

// scrapeMetrics reads the metrics of an answerer, and returns their size.
func (r *server) scrapeMetrics(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.control+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Accept", "application/openmetrics-text")
	request.Header.Set("Accept-Encoding", "identity")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = response.Body.Close() }() // the body was read, so an error does not matter
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("scrape: %s", response.Status)
	}
	return io.Copy(io.Discard, response.Body)
}
