package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	brokerserver "github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	brokersettings "github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// answererCommand runs this program as the part of a broker that answers requests: its book, its journal and its
// REST server with mTLS, but no controllers.
const answererCommand = "answerer"

// unlimited is a value for rate limits and budgets that no measurement reaches. A few clusters send what many
// clusters would send.
const unlimited = 1 << 20

func runAnswerer(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(answererCommand, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "cluster that holds the journal")
	namespace := flags.String("namespace", "", "namespace of the journal")
	bind := flags.String("bind", "", "address of the REST server")
	control := flags.String("control", "", "address of the control server")
	certificates := flags.String("certificates", "", "folder with the server's certificate")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	store, err := journal.NewConfigMaps(config, *namespace)
	if err != nil {
		return err
	}
	// The answerer writes log lines, as the broker does, because they take time.
	log := zap.New()
	b := broker.New(broker.Options{Store: store, Log: log, Now: time.Now})
	set := brokersettings.Default()
	set.Budget.Reservations, set.Budget.JournalPerHour = unlimited, unlimited<<20
	b.SetConfig(ctx, set)
	rest, err := brokerserver.New(brokerserver.Options{
		Addr: *bind, CertDir: *certificates, Broker: b, Access: b.Access(), Log: log, Rate: unlimited, Burst: unlimited,
	})
	if err != nil {
		return err
	}
	return runAll(ctx, b.Run, rest.Start, controlServer(b, *control, log), forget(b.Feed().Reservations), forget(b.Feed().Clusters))
}

// forget returns a function that reads changes and ignores them until its context ends. Controllers would write the
// changes to objects.
func forget(changes func(context.Context) ([]string, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			if _, err := changes(ctx); err != nil {
				return nil //nolint:nilerr // it ends with ctx
			}
		}
	}
}

// runAll runs all parts at the same time. When the first of them ends, it ends the others, and returns the errors of
// all.
func runAll(ctx context.Context, parts ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(parts))
	for _, part := range parts {
		go func() { ended <- part(ctx) }()
	}
	err := <-ended
	cancel()
	for range parts[1:] {
		err = errors.Join(err, <-ended)
	}
	return err
}

// controlServer returns a server for the commands of the program that measures.
func controlServer(b *broker.Broker, address string, log logr.Logger) func(context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		if err := b.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /heap", tellHeap)
	registry := prometheus.NewRegistry()
	registry.MustRegister(broker.NewCollector(b))
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	c := &crowd{b: b}
	for command, carryOut := range map[string]func(context.Context, int) error{
		"lend": c.lend, "advertise": c.advertise, "fill": c.fill,
	} {
		mux.HandleFunc("POST /"+command, func(w http.ResponseWriter, r *http.Request) {
			n, err := strconv.Atoi(r.FormValue("n"))
			if err == nil {
				err = carryOut(r.Context(), n)
			}
			if err != nil {
				log.Error(err, "not carried out", "command", command, "n", n)
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
		})
	}
	return serve(address, mux)
}

// tellHeap writes how many bytes of the heap are in use.
func tellHeap(w http.ResponseWriter, _ *http.Request) {
	// The first collection runs finalizers, and the second one frees their objects.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = json.NewEncoder(w).Encode(m.HeapAlloc) // an error means that the client has gone
}

// serve returns a function that serves HTTP at an address until ctx ends.
func serve(address string, handler http.Handler) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Second}
		defer context.AfterFunc(ctx, func() { _ = s.Close() })() // requests in progress have no use then
		if err := s.ListenAndServe(); ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// crowd calls the broker on behalf of many clusters, without connections.
type crowd struct {
	b *broker.Broker
	// agents is the number of clusters that advertise.
	agents int
}

// atOnce is how many calls of a command run at the same time.
const atOnce = 512

// forEach calls do for the numbers from 0 to n-1, many of them at the same time.
func forEach(n int, do func(i int) error) error {
	var calling sync.WaitGroup
	failed := make([]error, atOnce)
	for caller := range atOnce {
		calling.Go(func() {
			for i := caller; i < n && failed[caller] == nil; i += atOnce {
				failed[caller] = retryWhileUnavailable(func() error { return do(i) })
			}
		})
	}
	calling.Wait()
	return errors.Join(failed...)
}

// retryWhileUnavailable repeats a call as long as the broker cannot write its journal.
func retryWhileUnavailable(call func() error) error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := call()
		if err == nil || fault.ReasonOf(err) != fault.Unavailable || time.Since(began) > waitTimeout {
			return err
		}
	}
}

// lend offers the capacity of a number of clusters without agents.
func (c *crowd) lend(ctx context.Context, clusters int) error {
	whole, err := wire.ToAmounts(v1.Amounts{"cpu": wholeCPU, "memory": wholeMemory})
	if err != nil {
		return err
	}
	return forEach(clusters, func(i int) error {
		return c.b.OfferManifest(ctx, &ledger.Offer{
			ClusterID: clusterID(i), Endpoint: "https://" + clusterID(i) + ".example:6443", Capacity: whole, Allocatable: whole,
			Cost:   &brokerv1alpha1.Cost{CPUCost: cpuPrice, MemoryCost: memoryPrice, Currency: "EUR"},
			Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Namespace: namespace, Name: clusterID(i), UID: clusterID(i)}, Digest: "1"},
		})
	})
}

// advertise sends one advertisement for each of a number of clusters with agents.
func (c *crowd) advertise(ctx context.Context, clusters int) error {
	c.agents = clusters
	return forEach(clusters, func(i int) error {
		_, err := c.b.PublishAdvertisement(ctx, clusterID(i), advertisementOf(clusterID(i), time.Now().UnixNano()))
		return err
	})
}

// fill requests reservations and acknowledges them. Meanwhile, it keeps sending the advertisements of the
// providers.
func (c *crowd) fill(ctx context.Context, reservations int) error {
	filling, filled := context.WithCancel(ctx)
	defer filled()
	go func() {
		for sleep(filling, advertiseEvery); filling.Err() == nil; sleep(filling, advertiseEvery) {
			_ = c.advertise(ctx, c.agents) // without an advertisement, the requests below fail and report it
		}
	}()
	return forEach(reservations, func(i int) error {
		requester, key := keyOf(i)
		for {
			r, err := c.b.RequestReservation(ctx, requester, key, oneCPU())
			if err != nil {
				return err
			}
			p := r.Placements[len(r.Placements)-1]
			err = c.b.ReportStatus(ctx, p.ClusterID, r.Name, &v1.StatusReport{
				Placement: p.Number, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged,
			})
			if fault.ReasonOf(err) != fault.Conflict {
				return err
			}
			// The acknowledgement was too late, and the broker has moved the reservation to another cluster.
		}
	})
}

// advertiseEvery is much shorter than the time after which a broker considers a cluster silent.
const advertiseEvery = 30 * time.Second

// keyOf returns the requester and the idempotency key of the i-th reservation of fill.
func keyOf(i int) (requester, key string) {
	return fmt.Sprintf("client-%d", i%atOnce), fmt.Sprintf("request-%d", i)
}
