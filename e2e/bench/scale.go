package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// scale measures a broker with a large fleet and many reservations: its memory, and the time until it answers
// correctly again after it was killed.
var scale = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	copies, err := at.samples(ctx)
	if err != nil {
		return err
	}
	broker, err := at.startAnswerer(ctx)
	if err != nil {
		return err
	}
	if err := at.heaps(ctx, s, t, broker); err != nil {
		return err
	}
	if err := copies.write(ctx, s); err != nil {
		return err
	}
	return at.recoveries(ctx, s, t, broker)
})

func (s *site) heaps(ctx context.Context, set settings, t *table, broker *server) error {
	empty, err := broker.heap(ctx)
	if err != nil {
		return err
	}
	// Every cluster advertises twice, because the broker keeps the first and the latest advertisement of each cluster.
	for range 2 {
		if err := broker.sendCommand(ctx, "advertise", set.clusters); err != nil {
			return err
		}
	}
	known, err := s.restingHeap(ctx, broker, set.clusters)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := broker.sendCommand(ctx, "fill", set.reservations); err != nil {
		return err
	}
	filling := time.Since(began)
	// The broker keeps the deadline of an acknowledged reservation in memory until it has passed.
	sleep(ctx, min(12*time.Second, 2*filling))
	full, err := s.restingHeap(ctx, broker, set.clusters+set.reservations)
	if err != nil {
		return err
	}
	t.row("heap per 1,000 clusters", (known-empty)/float64(set.clusters)*1000, atMost(5, 3, "MB"), "%d clusters: %.1f MB", set.clusters, known-empty)
	t.row("heap per 100,000 reservations", (full-known)/float64(set.reservations)*100_000, atMost(90, 40, "MB"),
		"%d reservations: %.1f MB; granted and acknowledged at %.0f/s", set.reservations, full-known, float64(set.reservations)/filling.Seconds())
	return nil
}

// restingHeap returns the heap of an answerer with this many entries in its book, in MB. It waits until no
// checkpoint is being written, because this needs a copy of the book.
func (s *site) restingHeap(ctx context.Context, broker *server, entries int) (float64, error) {
	if err := s.checkpointed(ctx, entries); err != nil {
		return 0, fmt.Errorf("waiting for a checkpoint: %w", err)
	}
	return broker.heap(ctx)
}

// heap returns the heap of an answerer in MB.
func (r *server) heap(ctx context.Context) (float64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.control+"/heap", nil)
	if err != nil {
		return 0, err
	}
	inUse, err := answerOf[uint64](http.DefaultClient.Do(request)) //nolint:bodyclose // answerOf closes it
	if err != nil {
		return 0, err
	}
	return float64(*inUse) / 1e6, nil
}

// checkpointEvery is the number of records after which a broker writes a checkpoint, if the book has at most eight
// times as many entries. For a larger book, it is an eighth of the number of entries.
const checkpointEvery = 2000

// checkpointed waits until a checkpoint covers most of the journal, as it does when a broker has run for some time.
func (s *site) checkpointed(ctx context.Context, entries int) error {
	return awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
		var tail corev1.ConfigMap
		if err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "liqo-resource-broker-journal-tail"}, &tail); err != nil {
			return false, err
		}
		var header struct {
			Head       struct{ Position int64 }
			Checkpoint struct{ Position int64 }
		}
		if err := json.Unmarshal([]byte(tail.Data["header"]), &header); err != nil {
			return false, err
		}
		return header.Head.Position < header.Checkpoint.Position+int64(max(checkpointEvery, entries/8)), nil
	})
}

// recoveries measures alternately a recovery of the broker and a LIST of as many objects.
func (s *site) recoveries(ctx context.Context, set settings, t *table, broker *server) error {
	requester, key := keyOf(0)
	c, err := s.caller(requester, broker.url)
	if err != nil {
		return err
	}
	known, err := c.reserve(ctx, key)
	if err != nil {
		return err
	}
	recovery := func() (time.Duration, error) {
		broker.Kill()
		c.transport.CloseIdleConnections()
		began := time.Now()
		if err := broker.Start(); err != nil {
			return 0, err
		}
		err := awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
			r, err := c.reserve(ctx, key)
			return err == nil && r.Name == known.Name, nil
		})
		return time.Since(began), err
	}
	list := func() (time.Duration, error) {
		began := time.Now()
		clusters, reservations, err := s.listAll(ctx)
		if err == nil && (clusters < set.clusters || reservations < set.reservations) {
			err = fmt.Errorf("the lists have %d clusters and %d reservations", clusters, reservations)
		}
		return time.Since(began), err
	}
	// The API server must first read the objects that were written directly to etcd.
	var failed error
	err = awaitCondition(ctx, 5*waitTimeout, func(context.Context) (bool, error) { _, failed = list(); return failed == nil, nil })
	if err != nil {
		return fmt.Errorf("taking the copies in: %w: %w", err, failed)
	}
	var recovered, listed []time.Duration
	for range set.starts {
		took, err := recovery()
		if err != nil {
			return fmt.Errorf("recovering: %w", err)
		}
		recovered = append(recovered, took)
		if took, err = list(); err != nil {
			return fmt.Errorf("listing: %w", err)
		}
		listed = append(listed, took)
	}
	ours, base := quantile(recovered, .5), quantile(listed, .5)
	t.row("recovery ÷ one LIST of as many objects", ours.Seconds()/base.Seconds(), atMost(.25, .12, ""),
		"%d clusters, %d reservations: %.2f s from a killed process to the first correct answer ÷ %.2f s",
		set.clusters, set.reservations, ours.Seconds(), base.Seconds())
	return nil
}

func (s *site) listAll(ctx context.Context) (clusters, reservations int, err error) {
	var c brokerv1alpha1.ClusterAdvertisementList
	if err := s.List(ctx, &c); err != nil {
		return 0, 0, err
	}
	var r brokerv1alpha1.ReservationList
	err = s.List(ctx, &r)
	return len(c.Items), len(r.Items), err
}
