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
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	brokerserver "github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// answererCommand has this program be the answer path of a broker: its book, its
// journal and its REST server with mTLS, and no controllers.
const answererCommand = "answerer"

// unlimited lifts the limits of requests and the budgets of a cluster: a few clusters stand
// for many.
const unlimited = 1 << 20

func answerer(ctx context.Context, args []string) error {
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
	// The lines are written as the broker writes them, and cost what they cost.
	log := zap.New()
	b := broker.New(broker.Options{Store: store, Log: log, Now: time.Now})
	set := broker.DefaultConfig()
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

// forget takes what changed, as controllers do, and shows it nowhere.
func forget(changes func(context.Context) ([]string, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			if _, err := changes(ctx); err != nil {
				return nil //nolint:nilerr // it ends with ctx
			}
		}
	}
}

// runAll ends with the first that ends.
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

// controlServer answers the program that measures.
func controlServer(b *broker.Broker, address string, log logr.Logger) func(context.Context) error {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		if err := b.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	mux.HandleFunc("GET /heap", tellHeap)
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

// tellHeap says how many bytes of the heap are in use.
func tellHeap(w http.ResponseWriter, _ *http.Request) {
	// What the first collection finds finalizers of goes with the second.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	_ = json.NewEncoder(w).Encode(m.HeapAlloc) // who asked may have gone
}

// serve answers at an address until ctx ends.
func serve(address string, handler http.Handler) func(context.Context) error {
	return func(ctx context.Context) error {
		s := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Second}
		defer context.AfterFunc(ctx, func() { _ = s.Close() })() // nothing that is under way is of use then
		if err := s.ListenAndServe(); ctx.Err() == nil {
			return err
		}
		return nil
	}
}

// crowd is clusters that speak to the broker without connections.
type crowd struct {
	b *broker.Broker
	// agents is how many of them advertise.
	agents int
}

// atOnce is how many calls of a command are under way at once.
const atOnce = 512

// each calls do for 0 to n-1.
func each(n int, do func(i int) error) error {
	var calling sync.WaitGroup
	failed := make([]error, atOnce)
	for caller := range atOnce {
		calling.Go(func() {
			for i := caller; i < n && failed[caller] == nil; i += atOnce {
				failed[caller] = insist(func() error { return do(i) })
			}
		})
	}
	calling.Wait()
	return errors.Join(failed...)
}

// insist repeats what is refused only because the journal cannot be written just now.
func insist(call func() error) error {
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		err := call()
		if err == nil || fault.ReasonOf(err) != fault.Unavailable || time.Since(began) > patience {
			return err
		}
	}
}

// lend has so many clusters without agents offer capacity.
func (c *crowd) lend(ctx context.Context, clusters int) error {
	whole, err := wire.ToAmounts(v1.Amounts{"cpu": wholeCPU, "memory": wholeMemory})
	if err != nil {
		return err
	}
	return each(clusters, func(i int) error {
		return c.b.OfferManifest(ctx, &ledger.Offer{
			ClusterID: clusterID(i), Endpoint: "https://" + clusterID(i) + ".example:6443", Capacity: whole, Allocatable: whole,
			Cost:   &ledger.Cost{CPU: cpuPrice, Memory: memoryPrice, Currency: "EUR"},
			Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Namespace: namespace, Name: clusterID(i), UID: clusterID(i)}, Digest: "1"},
		})
	})
}

// advertise has so many agents speak for their clusters.
func (c *crowd) advertise(ctx context.Context, clusters int) error {
	c.agents = clusters
	return each(clusters, func(i int) error {
		_, err := c.b.PublishAdvertisement(ctx, clusterID(i), advertisementOf(clusterID(i), time.Now().UnixNano()))
		return err
	})
}

// fill has so many reservations granted, and acknowledged. Who lends goes on to advertise.
func (c *crowd) fill(ctx context.Context, reservations int) error {
	filling, filled := context.WithCancel(ctx)
	defer filled()
	go func() {
		for sleep(filling, advertiseEvery); filling.Err() == nil; sleep(filling, advertiseEvery) {
			_ = c.advertise(ctx, c.agents) // without it what is filled is refused
		}
	}()
	return each(reservations, func(i int) error {
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
			// It came too late, and another cluster has it now.
		}
	})
}

// advertiseEvery is well within what a broker takes for silence.
const advertiseEvery = 30 * time.Second

// keyOf is who asked for a reservation of fill, and with which key.
func keyOf(i int) (requester, key string) {
	return fmt.Sprintf("client-%d", i%atOnce), fmt.Sprintf("request-%d", i)
}
