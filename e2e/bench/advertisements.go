package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

const (
	// handshakes is how many clusters connect at the same time.
	handshakes = 64
	// maxIntervals is the number of intervals after which the broker must show all clusters.
	maxIntervals = 30
)

// advertisements measures the cost of a large fleet that repeats its advertisements. Each cluster has its own
// connection to the real broker.
var advertisements = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	broker, err := at.startBroker(ctx, "broker", false)
	if err != nil {
		return err
	}
	fleet, err := at.fleet(s.clusters, broker.url)
	if err != nil {
		return err
	}
	sequence := int64(1)
	if err := fleet.all(ctx, sequence); err != nil {
		return err
	}
	// The fleet advertises until the broker shows every cluster.
	writes, err := at.awaitQuiet(ctx, s, func(ctx context.Context) error {
		sequence++
		return fleet.spread(ctx, sequence, s.interval)
	})
	if err != nil {
		return err
	}
	servers := at.pids(broker)[1:]
	resting, err := cpuDuring(servers, func() error { sleep(ctx, s.interval/3); return ctx.Err() })
	if err != nil {
		return err
	}
	spread, err := cpuDuring(servers, func() error {
		sequence++
		return fleet.spread(ctx, sequence, s.interval)
	})
	if err != nil {
		return err
	}
	busy, err := cpuDuring(servers, func() error {
		for range s.rounds {
			sequence++
			if err := fleet.all(ctx, sequence); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	each := busy.cpu / time.Duration(s.rounds*len(fleet))
	after, err := at.writes(ctx)
	if err != nil {
		return err
	}
	said := (1 + s.rounds) * len(fleet)
	t.row("API-server writes per unchanged advertisement", float64(after-writes)/float64(said), atMost(.02, .001, ""),
		"%d writes, %d advertisements", after-writes, said)
	t.row(fmt.Sprintf("%d clusters advertise every %s", len(fleet), s.interval),
		each.Seconds()*float64(len(fleet))/s.interval.Seconds(), atMost(.15, .03, "cores"),
		"broker, API server and etcd: %d µs each, %.0f a second; spread evenly and the machine asleep in between: %.3f cores, at rest %.3f",
		each.Microseconds(), float64(len(fleet))/s.interval.Seconds(), spread.cores(), resting.cores())
	return nil
})

// fleet is a set of clusters that advertise.
type fleet []*caller

func (s *site) fleet(clusters int, url string) (fleet, error) {
	f := make(fleet, clusters)
	for i := range f {
		var err error
		if f[i], err = s.caller(clusterID(i), url); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// all lets every cluster advertise once, as fast as the broker accepts it.
func (f fleet) all(ctx context.Context, sequence int64) error {
	var (
		advertising sync.WaitGroup
		failed      = make([]error, handshakes)
	)
	for h := range handshakes {
		advertising.Go(func() {
			for i := h; i < len(f) && failed[h] == nil; i += handshakes {
				failed[h] = f[i].advertise(ctx, sequence)
			}
		})
	}
	advertising.Wait()
	return errors.Join(failed...)
}

// spread lets every cluster advertise once, evenly spread over an interval.
func (f fleet) spread(ctx context.Context, sequence int64, interval time.Duration) error {
	var (
		advertising sync.WaitGroup
		began       = time.Now()
		failed      = make([]error, len(f))
	)
	for i, c := range f {
		sleep(ctx, time.Until(began.Add(interval*time.Duration(i)/time.Duration(len(f)))))
		advertising.Go(func() { failed[i] = c.advertise(ctx, sequence) })
	}
	sleep(ctx, time.Until(began.Add(interval)))
	advertising.Wait()
	return errors.Join(failed...)
}

// awaitQuiet calls meanwhile until the broker shows all clusters and writes almost nothing more. It returns the number
// of writes until then.
func (s *site) awaitQuiet(ctx context.Context, set settings, meanwhile func(context.Context) error) (int64, error) {
	for range maxIntervals {
		before, err := s.writes(ctx)
		if err != nil {
			return 0, err
		}
		if err := meanwhile(ctx); err != nil {
			return 0, err
		}
		after, err := s.writes(ctx)
		if err != nil {
			return 0, err
		}
		var shown metav1.PartialObjectMetadataList
		shown.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("ClusterAdvertisementList"))
		if err := s.List(ctx, &shown, client.InNamespace(namespace)); err != nil {
			return 0, err
		}
		if len(shown.Items) == set.clusters && after-before < int64(1+set.clusters/100) {
			return after, nil
		}
	}
	return 0, fmt.Errorf("clusters are still being shown after %s", maxIntervals*set.interval)
}

// writes returns how many requests have written to the API server.
func (s *site) writes(ctx context.Context) (int64, error) {
	all, err := kubernetes.NewForConfig(s.plane.RESTConfig())
	if err != nil {
		return 0, err
	}
	text, err := all.RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	sum := int64(0)
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		if !countsWrites(lines.Text()) {
			continue
		}
		fields := strings.Fields(lines.Text())
		n, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %q: %w", lines.Text(), err)
		}
		sum += int64(n)
	}
	return sum, nil
}

// countsWrites reports whether a line of the API server's metrics counts writes. It ignores leases, which the API
// server itself writes.
func countsWrites(line string) bool {
	if !strings.HasPrefix(line, "apiserver_request_total{") || strings.Contains(line, `resource="leases"`) {
		return false
	}
	for _, verb := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		if strings.Contains(line, `verb="`+verb+`"`) {
			return true
		}
	}
	return false
}
