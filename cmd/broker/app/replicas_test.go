package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

const brokerNamespace = "liqo-resource-broker"

// site is a broker cluster with any number of replicas, and the clusters that connect to them.
type site struct {
	client.Client
	t        *testing.T
	plane    *controlplane.ControlPlane
	binary   string
	servers  *pkitest.Authority
	agents   *pkitest.Authority
	replicas []*replicaProcess
	// mailboxes are the clusters that connect through the API server.
	mailboxes []string
	// env is added to the environment of replicas.
	env []string
}

type replicaProcess struct {
	*process.Process
	url, direct, health, metrics string
}

func newSite(t *testing.T, replicas int, mailboxes ...string) *site {
	t.Helper()
	s := &site{t: t, plane: controlplanetest.Start(t), binary: brokerBinary(t), mailboxes: mailboxes}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, brokerv1alpha1.AddToScheme} {
		s.check(add(scheme))
	}
	var err error
	s.Client, err = client.New(s.plane.RESTConfig(), client.Options{Scheme: scheme})
	s.check(err)
	objects, err := chart.BrokerForProcess(brokerNamespace, brokerNamespace, mailboxes...)
	s.check(err)
	s.check(s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: brokerNamespace}}))
	s.check(manifest.Install(t.Context(), s.Client, objects))
	s.servers, err = pkitest.NewAuthority("servers", time.Now())
	s.check(err)
	s.agents, err = pkitest.NewAuthority("agents", time.Now())
	s.check(err)
	for i := range replicas {
		s.replicas = append(s.replicas, s.startReplica(fmt.Sprintf("broker-%d", i)))
	}
	return s
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) address(name string) string {
	s.t.Helper()
	port, err := s.plane.Port(name)
	s.check(err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// startReplica runs a broker with the shipped rights and waits until it is ready.
func (s *site) startReplica(name string, more ...string) *replicaProcess {
	s.t.Helper()
	kubeconfig, err := s.plane.ServiceAccountKubeconfig(s.t.Context(), brokerNamespace, "liqo-resource-broker")
	s.check(err)
	front := s.address(name)
	r := &replicaProcess{url: "https://" + front, direct: s.address(name + "-direct"), health: "http://" + s.address(name+"-health") + "/readyz", metrics: s.address(name + "-metrics")}
	for _, id := range s.mailboxes {
		more = append(more, "--mailboxes="+id+"=mailbox-"+id)
	}
	pair, err := s.servers.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
	s.check(err)
	r.Process, err = s.plane.Processes().Start(process.Spec{
		Name: name, Path: s.binary, Layer: process.Controller, Env: s.env, Restart: len(s.env) > 0,
		Args: append(more,
			"--kubeconfig="+kubeconfig, "--namespace="+brokerNamespace, "--leader-elect", "--notify-loopback",
			"--bind-address="+front, "--direct-bind-address="+r.direct, "--advertise-address="+r.direct,
			"--cert-path="+s.save(pair), "--metrics-bind-address="+r.metrics,
			"--health-probe-bind-address="+strings.TrimSuffix(strings.TrimPrefix(r.health, "http://"), "/readyz"),
		),
	})
	s.check(err)
	s.awaitReady(r)
	s.t.Cleanup(func() {
		text, err := os.ReadFile(r.Log())
		if err != nil {
			s.t.Error(err)
		}
		for _, crash := range []string{"DATA RACE", "panic:", "fatal error:"} {
			if at := strings.Index(string(text), crash); at >= 0 {
				s.t.Errorf("%s: %.3000s", name, text[at:])
			}
		}
		if s.t.Failed() {
			s.t.Logf("%s ends with %s", name, text[max(0, len(text)-6000):])
		}
	})
	return r
}

func (s *site) awaitReady(r *replicaProcess) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hangLimit)
	defer cancel()
	s.check(r.Await(ctx, process.Answers(r.health)))
}

func (s *site) save(pair pki.KeyPair) string {
	s.t.Helper()
	dir := s.t.TempDir()
	s.check(pkitest.Save(dir, pair, s.servers.CertPEM(), s.agents.CertPEM()))
	return dir
}

// connect connects a cluster to some of the replicas.
func (s *site) connect(clusterID string, urls ...string) *httptransport.Transport {
	s.t.Helper()
	pair, err := s.agents.IssueClient(clusterID, "test.local")
	s.check(err)
	files, err := pki.OpenFiles(s.save(pair), time.Now)
	s.check(err)
	c, err := httptransport.New(httptransport.Options{URLs: urls, Files: files})
	s.check(err)
	s.t.Cleanup(func() { s.check(c.Close()) })
	return c
}

// leader waits until another replica than the given one holds the lease. It returns this replica
// and the other one.
func (s *site) leader(but *replicaProcess) (leads, follows *replicaProcess) {
	s.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for {
		var lease coordinationv1.Lease
		err := s.Get(s.t.Context(), client.ObjectKey{Namespace: brokerNamespace, Name: leaseName}, &lease)
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		for i, r := range s.replicas {
			if r != but && strings.HasSuffix(holder, "_"+r.direct) {
				return r, s.replicas[1-i]
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the lease is held by %q, %v", holder, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// offer advertises CPUs of a cluster.
func (s *site) offer(c transport.BrokerCommunicator, clusterID, cpu string, sequence int64) {
	s.t.Helper()
	amounts := v1.Amounts{"cpu": cpu, "memory": "1000Gi"}
	s.persist("advertise "+clusterID, func(ctx context.Context) error {
		_, err := c.PublishAdvertisement(ctx, &v1.Advertisement{
			ClusterID: clusterID, Epoch: 1, Sequence: sequence, Capacity: amounts, Allocatable: amounts, Allocated: v1.Amounts{},
		})
		return err
	})
}

// lend offers CPUs of a cluster without an agent, so that placements need no acknowledgement.
func (s *site) lend(clusterID, cpu string) {
	s.t.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1000Gi")}
	adv := &brokerv1alpha1.ClusterAdvertisement{
		ObjectMeta: metav1.ObjectMeta{Namespace: brokerNamespace, Name: clusterID},
		Spec:       brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: clusterID, Resources: brokerv1alpha1.ResourceMetrics{Capacity: amounts, Allocatable: amounts}},
	}
	s.check(s.Create(s.t.Context(), adv))
	deadline := time.Now().Add(hangLimit)
	for !adv.Status.Active {
		if time.Now().After(deadline) {
			s.t.Fatalf("ClusterAdvertisement %q does not become active: %+v", clusterID, adv.Status)
		}
		time.Sleep(20 * time.Millisecond)
		s.check(s.Get(s.t.Context(), client.ObjectKeyFromObject(adv), adv))
	}
}

// persist repeats a call while no broker can be reached, as agents do. Any other error fails the
// test.
func (s *site) persist(what string, try func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), hangLimit)
	defer cancel()
	for {
		err := try(ctx)
		switch {
		case err == nil:
			return
		case !errors.Is(err, transport.ErrUnreachable) || ctx.Err() != nil:
			s.t.Errorf("%s: %v", what, err)
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// traffic runs clients that reserve one CPU after the other and release every other one.
type traffic struct {
	s *site
	// answered counts the answered calls. gap is the duration of the longest call in nanoseconds.
	answered, gap atomic.Int64

	mu sync.Mutex
	// held maps keys to the names of reservations.
	held map[string]string
	stop context.CancelFunc
	done sync.WaitGroup
}

func (s *site) traffic(name string, clients int, c *httptransport.Transport) *traffic {
	ctx, stop := context.WithCancel(s.t.Context())
	w := &traffic{s: s, held: map[string]string{}, stop: stop}
	for i := range clients {
		w.done.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				w.reserve(c, fmt.Sprintf("%s-%d-%d", name, i, n), n%2 == 1)
			}
		})
	}
	return w
}

func (w *traffic) reserve(c *httptransport.Transport, key string, release bool) {
	began := time.Now()
	var name string
	w.s.persist("reserve "+key, func(ctx context.Context) error {
		r, err := c.RequestReservation(ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}})
		if err == nil {
			name = r.Name
		}
		return err
	})
	w.note(began)
	if release {
		began = time.Now()
		w.s.persist("release "+key, func(ctx context.Context) error {
			_, err := c.ReleaseReservation(ctx, key, "")
			return err
		})
		w.note(began)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held[key] = name
}

func (w *traffic) note(began time.Time) {
	w.answered.Add(1)
	took := int64(time.Since(began))
	for {
		longest := w.gap.Load()
		if took <= longest || w.gap.CompareAndSwap(longest, took) {
			return
		}
	}
}

// await waits until the callers have got the given number of further answers.
func (w *traffic) await(more int64) {
	w.s.t.Helper()
	deadline := time.Now().Add(hangLimit)
	for want := w.answered.Load() + more; w.answered.Load() < want; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.s.t.Fatal("no more answers")
		}
	}
}

// end stops the clients and checks that every reservation exists exactly once.
func (w *traffic) end(c *httptransport.Transport) {
	w.s.t.Helper()
	w.stop()
	w.done.Wait()
	names := map[string]string{}
	for key, name := range w.held {
		w.s.persist("read "+key, func(ctx context.Context) error {
			r, err := c.RequestReservation(ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}})
			if err == nil && (r.Name != name || r.Phase != v1.ReservationPhaseReserved) {
				return fmt.Errorf("it is %q in phase %s, it was %q", r.Name, r.Phase, name)
			}
			return err
		})
		if other, ok := names[name]; ok {
			w.s.t.Errorf("%q is the reservation of %q and %q", name, other, key)
		}
		names[name] = key
	}
}

// watchRelease watches the lease. The function that it returns ends the watch and reports whether the lease was without a
// holder meanwhile. Another replica must hold it by then.
func (s *site) watchRelease() (released func() bool) {
	s.t.Helper()
	c, err := client.NewWithWatch(s.plane.RESTConfig(), client.Options{Scheme: s.Scheme()})
	s.check(err)
	before := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: brokerNamespace, Name: leaseName}
	s.check(s.Get(s.t.Context(), key, before))
	changes, err := c.Watch(s.t.Context(), &coordinationv1.LeaseList{}, client.InNamespace(key.Namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: before.ResourceVersion}})
	s.check(err)
	return func() bool {
		defer changes.Stop()
		for change := range changes.ResultChan() {
			lease, ok := change.Object.(*coordinationv1.Lease)
			if !ok {
				s.t.Fatalf("the watch of the lease ends with %+v", change.Object)
			}
			switch ptr.Deref(lease.Spec.HolderIdentity, "") {
			case *before.Spec.HolderIdentity:
			case "":
				return true
			default:
				return false
			}
		}
		s.t.Fatal("the watch of the lease has ended")
		return false
	}
}

// TestFollowerTakesOver checks that a cluster that knows only the follower's address is served
// even when the leader fails.
func TestFollowerTakesOver(t *testing.T) {
	s := newSite(t, 2)
	s.lend("paris", "100000")

	tests := []struct {
		name string
		end  syscall.Signal
		// releases is true if the leader gives up its lease, so that the follower need not wait until the lease expires.
		releases bool
	}{
		{"after SIGTERM", syscall.SIGTERM, true},
		{"after SIGKILL", syscall.SIGKILL, false},
		{"after SIGTERM, back again", syscall.SIGTERM, true},
	}
	for i, test := range tests {
		leader, follower := s.leader(nil)
		rome := s.connect("rome", follower.url)
		w := s.traffic(fmt.Sprintf("round%d", i), 4, rome)
		w.await(50)
		released := s.watchRelease()
		s.check(leader.signal(test.end))
		<-leader.Done()
		s.leader(leader)
		if got := released(); got != test.releases {
			t.Errorf("%s: the lease was released: %t, want %t", test.name, got, test.releases)
		}
		w.await(50)
		s.check(leader.Start())
		s.awaitReady(leader)
		w.await(50)
		w.end(rome)
		t.Logf("%s: %d calls, the longest took %s", test.name, w.answered.Load(), time.Duration(w.gap.Load()).Round(time.Millisecond))
	}
}

// TestRestartedBrokerContinuesItsOwnLease checks that a killed broker that restarts at the same
// address continues its own lease without waiting.
func TestRestartedBrokerContinuesItsOwnLease(t *testing.T) {
	s := newSite(t, 1)
	broker := s.replicas[0]
	s.awaitReady(broker)
	broker.Kill()
	var before, after coordinationv1.Lease
	key := client.ObjectKey{Namespace: brokerNamespace, Name: leaseName}
	s.check(s.Get(t.Context(), key, &before))
	// The test ends long before this lease expires.
	before.Spec.LeaseDurationSeconds = ptr.To(int32(time.Hour / time.Second))
	s.check(s.Update(t.Context(), &before))
	s.check(broker.Start())
	s.awaitReady(broker)
	s.await("another holder of the lease", func() error {
		err := s.Get(t.Context(), key, &after)
		if holder := ptr.Deref(after.Spec.HolderIdentity, ""); err == nil && (holder == "" || holder == *before.Spec.HolderIdentity) {
			err = fmt.Errorf("it is held by %q", holder)
		}
		return err
	})
}

func (r *replicaProcess) signal(sig syscall.Signal) error { return syscall.Kill(r.Pid(), sig) }

// TestSuspendedLeaderGrantsNothing suspends a leader for longer than its lease. The resumed leader
// can grant nothing, because another replica owns the journal.
func TestSuspendedLeaderGrantsNothing(t *testing.T) {
	const cpus = 60
	s := newSite(t, 2)
	both := []string{s.replicas[0].url, s.replicas[1].url}
	paris := s.connect("paris", both...)
	s.offer(paris, "paris", fmt.Sprint(cpus), 1)

	var mu sync.Mutex
	granted, refused := map[string]string{}, 0
	for round := range 3 {
		leader, _ := s.leader(nil)
		var asking sync.WaitGroup
		ask := func(from, to int) {
			for i := from; i < to; i++ {
				asking.Go(func() {
					key, urls, name := fmt.Sprintf("request-%d-%d", round, i), both, ""
					if i%2 == 1 {
						urls = []string{both[1], both[0]}
					}
					rome := s.connect("rome", urls...)
					s.persist(key, func(ctx context.Context) error {
						r, err := rome.RequestReservation(ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}})
						mu.Lock()
						defer mu.Unlock()
						if err == nil {
							granted[key], name = r.Name, r.Name
						}
						if fault.ReasonOf(err) == fault.NoCandidate {
							refused++
							return nil
						}
						return err
					})
					if name == "" {
						return
					}
					// The broker pauses providers that do not answer.
					s.persist("acknowledging "+key, func(ctx context.Context) error {
						return paris.ReportStatus(ctx, name, &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged})
					})
				})
			}
		}
		ask(0, 10)
		s.check(leader.signal(syscall.SIGSTOP))
		ask(10, 20)
		s.leader(leader)
		ask(20, 25)
		s.check(leader.signal(syscall.SIGCONT))
		ask(25, 30)
		asking.Wait()
		s.offer(paris, "paris", fmt.Sprint(cpus), int64(round+2))
	}
	if len(granted) != cpus || refused != 90-cpus {
		t.Errorf("%d granted and %d refused of 90 requests for %d CPUs", len(granted), refused, cpus)
	}
	names := map[string]string{}
	for _, name := range granted {
		names[name] = name
	}
	rome := s.connect("rome", both...)
	for key, name := range granted {
		s.persist("read "+key, func(ctx context.Context) error {
			r, err := rome.RequestReservation(ctx, key, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1", "memory": "1Gi"}})
			if err == nil && r.Name != name {
				return fmt.Errorf("it is %q, it was %q", r.Name, name)
			}
			return err
		})
	}
	if diff := cmp.Diff(len(granted), len(names)); diff != "" {
		t.Errorf("names (-keys +names):\n%s", diff)
	}
}
