package broker

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reservations"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
)

// What tests wait for.
const (
	lease       = term.Lease
	renewEvery  = term.RenewEvery
	retain      = term.Retain
	reopenDelay = term.RetryDelay
)

// Reasons of requesters for giving up a placement.
const (
	unreachable = reservations.Unreachable
	declined    = reservations.Declined
	unusable    = reservations.Unusable
)

// fleet is a broker and the clusters that call it, in virtual time.
type fleet struct {
	*Broker
	t        *testing.T
	server   *journaltest.Server
	store    *journaltest.Client
	stop     func()
	sequence int64
	// follower is another process, which takes over at the next start; nil if there is none.
	follower *Broker
	// signer signs the answers of brokers that newBroker creates after this field is set; nil for none.
	signer *receipt.Signer
	// config is the configuration that the next process starts with, nil for the defaults.
	config *settings.Config
	// recordSpan receives the spans of brokers that newBroker creates after this field is set; nil for none.
	recordSpan func(tracing.Span)
}

// inFleet runs test in a bubble of virtual time.
func inFleet(t *testing.T, test func(f *fleet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fleet{t: t, server: journaltest.NewServer()}
		f.start()
		defer func() { f.stop() }()
		test(f)
	})
}

// start runs a new broker process, or the follower, on the same API server.
func (f *fleet) start() {
	f.Broker, f.follower = cmp.Or(f.follower, f.newBroker()), nil
	f.store = f.opts.Store.(*journaltest.Client)
	config := settings.Default()
	if f.config != nil {
		config = *f.config
	}
	f.SetConfig(context.Background(), config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = f.Run(ctx)
	}()
	f.stop = func() {
		cancel()
		<-done
	}
	synctest.Wait()
}

func (f *fleet) newBroker() *Broker {
	return New(Options{Store: f.server.Client(), Version: "test", Log: logr.Discard(), Now: time.Now, Receipts: f.signer, RecordSpan: f.recordSpan})
}

// restartWithClock replaces the broker by a process with another clock.
func (f *fleet) restartWithClock(now func() time.Time) {
	f.stop()
	f.follower = f.newBroker()
	f.follower.opts.Now = now
	f.start()
}

// follow lets another process follow the journal until the returned function is called. The next
// start continues with that process.
func (f *fleet) follow() (end func()) {
	f.follower = f.newBroker()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.follower.Follow(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

// kill ends the process as SIGKILL would, and starts another one on the same API server.
func (f *fleet) kill() {
	f.store.Stop()
	f.stop()
	f.start()
}

func (f *fleet) advertise(id, cpu, memory string, change ...func(*v1.Advertisement)) {
	f.t.Helper()
	f.sequence++
	amounts := v1.Amounts{"cpu": cpu, "memory": memory}
	adv := &v1.Advertisement{
		ClusterID: id, Epoch: 1, Sequence: f.sequence,
		Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{},
		EndpointURL: "https://" + id + ".example:6443",
	}
	for _, c := range change {
		c(adv)
	}
	if _, err := f.PublishAdvertisement(context.Background(), id, adv); err != nil {
		f.t.Fatalf("advertising %s: %v", id, err)
	}
}

func request(cpu, memory string) *v1.ReservationRequest {
	return &v1.ReservationRequest{Resources: v1.Amounts{"cpu": cpu, "memory": memory}}
}

func (f *fleet) reserve(id, key string, req *v1.ReservationRequest) *v1.Reservation {
	f.t.Helper()
	r, err := f.RequestReservation(context.Background(), id, key, req)
	if err != nil {
		f.t.Fatalf("reserving for %s: %v", id, err)
	}
	return r
}

func (f *fleet) release(id, nameOrKey string) {
	f.t.Helper()
	if _, err := f.ReleaseReservation(context.Background(), id, nameOrKey, ""); err != nil {
		f.t.Fatalf("releasing %s for %s: %v", nameOrKey, id, err)
	}
}

func (f *fleet) get(id, name string) *v1.Reservation {
	f.t.Helper()
	r, err := f.GetReservation(context.Background(), id, name)
	if err != nil {
		f.t.Fatalf("reading %s: %v", name, err)
	}
	return r
}

func (f *fleet) report(id string, r *v1.Reservation, placement int, role v1.StatusReportRole, state v1.StatusReportState) error {
	return f.ReportStatus(context.Background(), id, r.Name, &v1.StatusReport{Placement: int32(placement), Role: role, State: state})
}

func (f *fleet) mustReport(id string, r *v1.Reservation, placement int, role v1.StatusReportRole, state v1.StatusReportState) {
	f.t.Helper()
	if err := f.report(id, r, placement, role, state); err != nil {
		f.t.Fatalf("%s reports %s %s: %v", id, role, state, err)
	}
}

// available returns a cluster's free CPU and memory according to the broker.
func (f *fleet) available(id string) string {
	f.t.Helper()
	view, err := f.Cluster(context.Background(), id)
	if err != nil || view == nil {
		f.t.Fatalf("cluster %s: %v, %v", id, view, err)
	}
	free := view.Available.ToResourceList()
	return fmt.Sprintf("%s %s", free.Cpu(), free.Memory())
}

// fetch asks for a cluster's instructions once.
func (f *fleet) fetch(id string) {
	f.t.Helper()
	if _, err := f.FetchInstructions(context.Background(), id, "", 0); err != nil {
		f.t.Fatalf("instructions for %s: %v", id, err)
	}
}

func target(r *v1.Reservation) string { return r.Placements[len(r.Placements)-1].ClusterID }
