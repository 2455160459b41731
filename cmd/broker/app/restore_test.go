package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// agent is a cluster that carries out instructions at once. Its memory records what really
// runs.
type agent struct {
	s  *site
	id string
	c  *httptransport.Transport
	// cpus is the number of CPUs that it offers, "" for none.
	cpus string
	// cursor and sequence are used by one goroutine only, and need no lock.
	cursor   string
	sequence int64

	// mu guards the fields below.
	mu       sync.Mutex
	provides map[string]v1.ProvidedPlacement
	consumes map[string]v1.ConsumedReservation
	keys     map[string]string // keys of its requests, by reservation
}

func (s *site) agent(id, cpus string) *agent {
	a := &agent{
		s: s, id: id, c: s.connect(id, s.replicas[0].url, s.replicas[1].url), cpus: cpus, provides: map[string]v1.ProvidedPlacement{},
		consumes: map[string]v1.ConsumedReservation{}, keys: map[string]string{},
	}
	s.offer(a.c, id, cpus, a.next())
	return a
}

func (a *agent) next() int64 {
	a.sequence++
	return a.sequence
}

// start runs the agent until stop is called.
func (a *agent) start() (stop func()) {
	ctx, cancel := context.WithCancel(a.s.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := a.turn(ctx); err != nil {
				select {
				case <-ctx.Done():
				case <-time.After(100 * time.Millisecond):
				}
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (a *agent) turn(ctx context.Context) error {
	list, err := a.c.FetchInstructions(ctx, a.cursor, time.Second)
	if err != nil {
		return err
	}
	if list.Announce {
		if err := a.c.AnnounceHoldings(ctx, a.holdings()); err != nil {
			return err
		}
		a.cursor = ""
		return nil
	}
	for i := range list.Instructions {
		if err := a.do(ctx, &list.Instructions[i]); err != nil {
			return err
		}
	}
	a.cursor = list.Cursor
	return nil
}

func (a *agent) holdings() *v1.Holdings {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &v1.Holdings{
		Provides: slices.AppendSeq([]v1.ProvidedPlacement{}, maps.Values(a.provides)),
		Consumes: slices.AppendSeq([]v1.ConsumedReservation{}, maps.Values(a.consumes)),
	}
}

// do carries out an instruction and reports it. It reports nothing for an instruction that has
// ended. A refusal of the report is no error, because the broker's state counts.
func (a *agent) do(ctx context.Context, in *v1.Instruction) error {
	role, state := v1.StatusReportRole(in.Role), v1.StatusReportStateGone
	name := fmt.Sprintf("%s-%d", in.Reservation, in.Placement)
	a.mu.Lock()
	switch {
	case in.State != v1.InstructionStateHold && in.Role == v1.InstructionRoleProvider:
		delete(a.provides, name)
	case in.State != v1.InstructionStateHold:
		delete(a.consumes, name)
	case in.Role == v1.InstructionRoleProvider:
		state = v1.StatusReportStateAcknowledged
		a.provides[name] = v1.ProvidedPlacement{
			Reservation: in.Reservation, Placement: in.Placement, ConsumerID: in.ConsumerID, Resources: in.Resources, Acknowledged: true,
		}
	default:
		state = v1.StatusReportStateReady
		a.consumes[name] = v1.ConsumedReservation{
			Reservation: in.Reservation, Placement: in.Placement, ProviderID: in.ProviderID, Ready: true, Key: in.Key, Request: oneCPU,
		}
	}
	a.mu.Unlock()
	if in.State == v1.InstructionStateEnded {
		return nil
	}
	err := a.c.ReportStatus(ctx, in.Reservation, &v1.StatusReport{Placement: in.Placement, Role: role, State: state})
	if _, considered := errors.AsType[*fault.Error](err); considered {
		return nil // the broker's state is authoritative
	}
	return err
}

var oneCPU = v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}

// reserve requests one CPU and waits until both sides have carried it out.
func (a *agent) reserve(key string) string {
	a.s.t.Helper()
	var name string
	a.s.persist("reserve "+key, func(ctx context.Context) error {
		r, err := a.c.RequestReservation(ctx, key, &oneCPU)
		if err == nil {
			name = r.Name
		}
		return err
	})
	a.keys[name] = key
	a.awaitPhase(name, brokerv1alpha1.ReservationActive)
	return name
}

// awaitPhase waits for the phase in the broker's Reservation.
func (a *agent) awaitPhase(name string, want brokerv1alpha1.ReservationPhase) {
	a.s.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		r := &brokerv1alpha1.Reservation{}
		err := a.s.Get(a.s.t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: name}, r)
		if err == nil && r.Status.Phase == want {
			return
		}
		if time.Now().After(deadline) {
			a.s.t.Fatalf("reservation %s is %+v, %v; want %s", name, r.Status, err, want)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// withoutEtcd stops all processes that use etcd's files while f changes them.
func (s *site) withoutEtcd(f func(files string) error) {
	s.t.Helper()
	s.check(s.plane.KillAPIServer())
	etcd, ok := s.plane.Processes().Process(toolchain.Etcd.Name)
	if !ok {
		s.t.Fatal("there is no etcd")
	}
	etcd.Stop()
	s.check(f(filepath.Join(s.plane.Dir(), "etcd")))
	s.check(etcd.Start())
	s.check(s.plane.StartAPIServer(s.t.Context()))
}

// TestRestoredEtcd restores the etcd of the broker's cluster from an older snapshot.
func TestRestoredEtcd(t *testing.T) {
	s := newSite(t, 2)
	rome, paris, berlin := s.agent("rome", "0"), s.agent("paris", "4"), s.agent("berlin", "4")
	all := []*agent{rome, paris, berlin}
	start := func(agents ...*agent) (stop func()) {
		var stops []func()
		for _, a := range agents {
			stops = append(stops, a.start())
		}
		return func() {
			for _, stop := range stops {
				stop()
			}
		}
	}
	stop := start(all...)
	running := map[string]bool{}
	for i := range 3 {
		running[rome.reserve(fmt.Sprintf("kept-%04d", i))] = true
	}
	released := slices.Sorted(maps.Keys(running))[0]

	snapshot := filepath.Join(t.TempDir(), "snapshot")
	s.withoutEtcd(func(files string) error { return os.CopyFS(snapshot, os.DirFS(files)) })
	taken := time.Now()
	for i := range 3 {
		running[rome.reserve(fmt.Sprintf("lost-%04d", i))] = true
	}
	s.persist("release", func(ctx context.Context) error {
		_, err := rome.c.ReleaseReservation(ctx, released, "")
		return err
	})
	rome.awaitPhase(released, brokerv1alpha1.ReservationReleased)
	delete(running, released)
	stop()

	for _, r := range s.replicas {
		r.Kill()
	}
	s.withoutEtcd(func(files string) error {
		return errors.Join(os.RemoveAll(files), os.CopyFS(files, os.DirFS(snapshot)))
	})
	// The journal's newest event must be more than 15 s old, so that the broker mistrusts the
	// journal when it starts. With a younger one, it would notice the restoration only with rome's
	// first call.
	time.Sleep(time.Until(taken.Add(16 * time.Second)))
	for _, r := range s.replicas {
		s.check(r.Start())
	}
	for _, r := range s.replicas {
		s.awaitReady(r)
	}

	// rome reports its cursor while the other clusters are still offline.
	stopRome := start(rome)
	athens := s.connect("athens", s.replicas[0].url, s.replicas[1].url)
	s.awaitRefusal(athens, fault.Recovering)
	s.awaitAwaited("paris", true)
	stopOthers := start(paris, berlin)
	defer func() { stopRome(); stopOthers() }()
	s.awaitAwaited("paris", false)
	s.awaitAwaited("berlin", false)

	for name := range running {
		rome.awaitPhase(name, brokerv1alpha1.ReservationActive)
		s.persist("read "+rome.keys[name], func(ctx context.Context) error {
			r, err := rome.c.RequestReservation(ctx, rome.keys[name], &oneCPU)
			if err == nil && r.Name != name {
				err = fmt.Errorf("it has reservation %+v, want %s", r, name)
			}
			return err
		})
	}
	rome.awaitPhase(released, brokerv1alpha1.ReservationReleased)
	if held := len(paris.holdings().Provides) + len(berlin.holdings().Provides); held != len(running) {
		t.Errorf("%d placements run, want %d", held, len(running))
	}
	// The broker lends all remaining CPUs, and no more.
	for i := range 8 - len(running) {
		s.persist(fmt.Sprintf("reservation %d of what is left", i), func(ctx context.Context) error {
			_, err := athens.RequestReservation(ctx, fmt.Sprintf("athens-%04d", i), &oneCPU)
			return err
		})
	}
	s.persist("one more", func(ctx context.Context) error {
		_, err := athens.RequestReservation(ctx, "athens-too-much", &oneCPU)
		switch {
		case err == nil:
			return errors.New("it was granted")
		case fault.ReasonOf(err) == fault.NoCandidate:
			return nil
		}
		return err
	})
}

func (s *site) awaitRefusal(c *httptransport.Transport, want fault.Reason) {
	s.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		_, err := c.RequestReservation(s.t.Context(), "athens-is-early", &oneCPU)
		no, _ := errors.AsType[*fault.Error](err)
		if no != nil && no.Reason == want {
			s.t.Logf("refused: %s (again in %s)", no.Detail, no.RetryAfter)
			if no.RetryAfter == 0 {
				s.t.Error("the refusal does not say when to try again")
			}
			return
		}
		if err == nil || time.Now().After(deadline) {
			s.t.Fatalf("asking gives %v, want %s", err, want)
		}
	}
}

// awaitAwaited waits until condition Fresh of a cluster says that its holdings are awaited. If want
// is false, it waits until the condition no longer says so.
func (s *site) awaitAwaited(id string, want bool) {
	s.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		adv := &brokerv1alpha1.ClusterAdvertisement{}
		err := s.Get(s.t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: id}, adv)
		got := slices.ContainsFunc(adv.Status.Conditions, func(c metav1.Condition) bool {
			return c.Type == brokerv1alpha1.ConditionFresh && c.Reason == brokerv1alpha1.ReasonAwaitingHoldings
		})
		if err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("cluster %s awaited: %t, want %t; %v %v", id, got, want, adv.Status.Conditions, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}
