package robustness

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// manner is how a provider's agent reacts to placements.
type manner int

const (
	willing manner = iota
	// fussy agents refuse about every third placement, at random.
	fussy
	// deaf agents acknowledge no placement, but take placements down when instructed.
	deaf
)

// agent is a cluster that carries out instructions at once. No pods run: the placements that it has in memory stand for
// its workloads.
type agent struct {
	s      *site
	caller *caller
	id     string
	cpus   int64
	manner manner
	random *rand.Rand
	// cursor and sequence are each used by one loop only.
	cursor   string
	sequence int64
	// nodes counts the virtual nodes of the cluster. Only the loop that polls uses it.
	nodes int

	mu       sync.Mutex
	provides map[string]v1.ProvidedPlacement
	consumes map[string]v1.ConsumedReservation
}

func (s *site) agent(random *rand.Rand, id string, cpus int64, m manner) *agent {
	return &agent{
		s: s, caller: s.caller(id), id: id, cpus: cpus, manner: m, random: rand.New(rand.NewPCG(random.Uint64(), 1)),
		provides: map[string]v1.ProvidedPlacement{}, consumes: map[string]v1.ConsumedReservation{},
	}
}

// life is a set of clusters with agents: two that request and three that lend.
type life struct {
	stop context.CancelFunc
	done sync.WaitGroup
	// Requests end before agents do, so that everything is taken down.
	stopRequests context.CancelFunc
	requests     sync.WaitGroup
}

func (s *site) life(random *rand.Rand) *life {
	s.t.Helper()
	ctx, stop := context.WithCancel(s.t.Context())
	asking, stopRequests := context.WithCancel(ctx)
	l := &life{stop: stop, stopRequests: stopRequests}
	agents := []*agent{
		s.agent(random, "rome", 0, willing), s.agent(random, "athens", 0, willing),
		s.agent(random, "paris", 6, willing), s.agent(random, "berlin", 4, fussy), s.agent(random, "oslo", 3, deaf),
	}
	for _, a := range agents {
		a.advertise(ctx)
		l.done.Go(func() { a.run(ctx) })
		l.done.Go(func() { a.repeat(ctx) })
	}
	for _, a := range agents[:2] {
		l.requests.Go(func() { a.ask(asking) })
	}
	l.requests.Go(func() { s.askWithObjects(asking) })
	s.t.Cleanup(l.end)
	return l
}

func (l *life) endRequests() {
	l.stopRequests()
	l.requests.Wait()
}

func (l *life) end() {
	l.endRequests()
	l.stop()
	l.done.Wait()
}

// advertise sends the cluster's capacity and usage.
func (a *agent) advertise(ctx context.Context) {
	a.sequence++
	amounts := v1.Amounts{"cpu": strconv.FormatInt(a.cpus, 10), "memory": "1Ti"}
	adv := v1.Advertisement{
		ClusterID: a.id, Epoch: 1, Sequence: a.sequence, Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{},
		// The broker must not rely on this clock.
		Timestamp: time.Now().Add(-24 * time.Hour),
	}
	a.mu.Lock()
	for _, p := range a.provides {
		adv.Usage = append(adv.Usage, v1.Usage{Reservation: p.Reservation, Placement: p.Placement, Used: p.Resources})
	}
	a.mu.Unlock()
	answer, err := a.caller.callUntilDecided(ctx, http.MethodPost, "/api/v1/advertisements", "", adv)
	if ctx.Err() == nil && (err != nil || answer.status != http.StatusOK) {
		a.s.defects.note("advertisement of %s: %+v, %v", a.id, answer, err)
	}
}

func (a *agent) repeat(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
			a.advertise(ctx)
		}
	}
}

func (a *agent) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := a.turn(ctx); err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
				a.caller.next.Add(1)
			}
		}
	}
}

// turn polls once and carries out the instructions. If the broker asks for the holdings, turn announces them instead.
func (a *agent) turn(ctx context.Context) error {
	query := url.Values{"wait": {"1"}, "after": {a.cursor}}
	answered, err := a.caller.try(ctx, http.MethodGet, "/api/v1/instructions?"+query.Encode(), "", nil, 5*time.Second)
	if err != nil {
		return err
	}
	if answered.status != http.StatusOK {
		return fmt.Errorf("poll: %d %s", answered.status, answered.body)
	}
	var list v1.InstructionList
	if err := json.Unmarshal(answered.body, &list); err != nil {
		return err
	}
	if list.Announce {
		a.cursor = ""
		return a.send(ctx, "/api/v1/holdings", a.holdings())
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
	h := &v1.Holdings{Provides: []v1.ProvidedPlacement{}, Consumes: []v1.ConsumedReservation{}}
	for _, p := range a.provides {
		h.Provides = append(h.Provides, p)
	}
	for _, c := range a.consumes {
		h.Consumes = append(h.Consumes, c)
	}
	return h
}

func (a *agent) send(ctx context.Context, path string, body any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answered, err := a.caller.try(ctx, http.MethodPost, path, "", raw, attempt)
	if err != nil {
		return err
	}
	if temporary(answered.status) {
		return fmt.Errorf("%s: %d %s", path, answered.status, answered.body)
	}
	return a.caller.checkStatus(http.MethodPost, path, answered)
}

// do carries out an instruction and reports the result. It reports nothing for an instruction that has ended, for a
// consumer's instruction whose provider has not acknowledged yet, and, as a deaf provider, for any new placement.
func (a *agent) do(ctx context.Context, in *v1.Instruction) error {
	if in.State == v1.InstructionStateEnded {
		a.forget(in)
		return nil
	}
	report := &v1.StatusReport{Placement: in.Placement, Role: v1.StatusReportRole(in.Role), State: v1.StatusReportStateGone}
	switch {
	case in.State == v1.InstructionStateRelease:
		a.forget(in)
	case in.Role == v1.InstructionRoleConsumer:
		if !in.Acknowledged {
			return nil
		}
		return a.consume(ctx, in)
	case a.manner == deaf:
		return nil
	case a.manner == fussy && !in.Acknowledged && a.random.IntN(3) == 0:
		report.State, report.Reason = v1.StatusReportStateRefused, "NoRoom"
	default:
		report.State = v1.StatusReportStateAcknowledged
		a.provide(in)
	}
	return a.send(ctx, "/api/v1/reservations/"+in.Reservation+"/status", report)
}

func placementOf(in *v1.Instruction) string {
	return fmt.Sprintf("%s-%d", in.Reservation, in.Placement)
}

func (a *agent) forget(in *v1.Instruction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if in.Role == v1.InstructionRoleProvider {
		delete(a.provides, placementOf(in))
		return
	}
	delete(a.consumes, placementOf(in))
}

// consume reports the states of a placement's virtual node. Every other new node first waits for its network, and every
// third fails for a moment once it is Ready. In the end it is Ready.
func (a *agent) consume(ctx context.Context, in *v1.Instruction) error {
	states := []v1.StatusReportState{v1.StatusReportStateReady}
	if a.noteNode(in) {
		if a.nodes++; a.nodes%2 == 0 {
			states = slices.Insert(states, 0, v1.StatusReportStateConnecting)
		}
		if a.nodes%3 == 0 {
			states = append(states, v1.StatusReportStateNotReady, v1.StatusReportStateReady)
		}
	}
	for _, state := range states {
		report := &v1.StatusReport{Placement: in.Placement, Role: v1.StatusReportRoleConsumer, State: state}
		if err := a.send(ctx, "/api/v1/reservations/"+in.Reservation+"/status", report); err != nil {
			return err
		}
	}
	return nil
}

// noteNode records the virtual node of a placement, and reports whether it is new.
func (a *agent) noteNode(in *v1.Instruction) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, known := a.consumes[placementOf(in)]
	a.consumes[placementOf(in)] = v1.ConsumedReservation{
		Reservation: in.Reservation, Placement: in.Placement, ProviderID: in.ProviderID, Ready: true, Key: in.Key, Request: oneCPU,
	}
	return !known
}

// provide records a placement, and reports a defect if the provider has more than its capacity.
func (a *agent) provide(in *v1.Instruction) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.provides[placementOf(in)] = v1.ProvidedPlacement{
		Reservation: in.Reservation, Placement: in.Placement, ConsumerID: in.ConsumerID, Resources: in.Resources, Acknowledged: true,
	}
	if running := int64(len(a.provides)); running > a.cpus {
		a.s.defects.note("%s has %d CPUs, and was given %d reservations of one CPU each", a.id, a.cpus, running)
	}
}

var oneCPU = v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}}

// ask requests reservations of one CPU and ends them, in every possible way.
func (a *agent) ask(ctx context.Context) {
	calls := context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s.%06d", a.id, n)
		request := oneCPU
		if n%8 == 0 {
			// It expires unless it is released before.
			request.DurationSeconds = 60
		}
		answered, err := a.caller.reserve(calls, key, request)
		if err != nil || answered.status != http.StatusOK && answered.status != http.StatusConflict {
			a.s.defects.note("%s asks with %s: %+v, %v", a.id, key, answered, err)
			return
		}
		if answered.status == http.StatusOK && request.DurationSeconds == 0 {
			runtest.Pause(ctx, time.Duration(200+a.random.IntN(2000))*time.Millisecond)
		}
		if request.DurationSeconds == 0 || answered.status != http.StatusOK {
			if _, err := a.caller.release(calls, key); err != nil {
				a.s.defects.note("%v", err)
				return
			}
		}
		runtest.Pause(ctx, time.Duration(a.random.IntN(500))*time.Millisecond)
	}
}

// askWithObjects creates Reservations in the broker's cluster, and deletes them. Every other one is for berlin alone.
// If berlin refuses it, it fails, and an edit requests the capacity again.
func (s *site) askWithObjects(ctx context.Context) {
	calls := context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		r := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("by-hand-%d", n)}}
		r.Spec.RequesterID = "rome"
		r.Spec.RequestedResources = brokerv1alpha1.RequestedResources{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
		if n%2 == 0 {
			r.Spec.TargetClusterID = "berlin"
		}
		// The API server may be down: the next attempt follows.
		if err := s.Create(calls, r); err == nil {
			runtest.Pause(ctx, time.Second)
			if n%2 == 0 {
				s.editFailed(ctx, r)
				runtest.Pause(ctx, time.Second)
			}
			for s.Delete(calls, r) != nil && ctx.Err() == nil {
				runtest.Pause(ctx, time.Second)
			}
		}
		runtest.Pause(ctx, time.Second)
	}
}

// editFailed waits up to ten seconds until a Reservation is Active or has failed, and edits it if it has failed.
func (s *site) editFailed(ctx context.Context, r *brokerv1alpha1.Reservation) {
	for range 40 {
		runtest.Pause(ctx, 250*time.Millisecond)
		// An error is harmless: the API server may be down.
		if err := s.Get(context.WithoutCancel(ctx), client.ObjectKeyFromObject(r), r); err != nil || ctx.Err() != nil {
			continue
		}
		switch r.Status.Phase {
		case brokerv1alpha1.ReservationActive:
			return
		case brokerv1alpha1.ReservationFailed:
			_ = s.Patch(ctx, r, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"duration":"2h"}}`)))
			return
		}
	}
}
