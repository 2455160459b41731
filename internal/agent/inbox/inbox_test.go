package inbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const uid = "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01"

// cluster is an API server in memory that counts writes.
type cluster struct {
	client.Client

	// mu guards the fields below.
	mu    sync.Mutex
	count int
	// answer, if set, is the result of every write.
	answer error
}

func (c *cluster) write() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.count++
	return c.answer
}

func (c *cluster) writes() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

func (c *cluster) refuse(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = err
}

func newOptions(reader client.Reader) Options {
	return Options{
		ClusterID: "rome", Namespace: "default", Interval: 5 * time.Second, Reader: reader, Look: func(types.NamespacedName) {}, Clock: clock.RealClock{},
	}
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, agentv1alpha1.AddToScheme(scheme))
	c := &cluster{}
	c.Client = fakeclient.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := c.write(); err != nil {
				return err
			}
			return w.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if err := c.write(); err != nil {
				return err
			}
			return w.Patch(ctx, o, p, opts...)
		},
	}).Build()
	return c
}

func request(edit ...func(*agentv1alpha1.ResourceRequest)) *agentv1alpha1.ResourceRequest {
	rr := &agentv1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "mine", UID: uid},
		Status:     agentv1alpha1.ResourceRequestStatus{Asked: true},
	}
	for _, e := range edit {
		e(rr)
	}
	return rr
}

func instruction(role v1.InstructionRole, state v1.InstructionState, edit ...func(*v1.Instruction)) v1.Instruction {
	in := v1.Instruction{
		Reservation: "res-aaaaaaaaaa", Placement: 1, Role: role, State: state,
		ConsumerID: "rome", ProviderID: "paris", Resources: v1.Amounts{"cpu": "2"},
	}
	for _, e := range edit {
		e(&in)
	}
	return in
}

func withKey(key string) func(*v1.Instruction) { return func(in *v1.Instruction) { in.Key = key } }

func consumerObject(edit ...func(*agentv1alpha1.ReservationInstruction)) *agentv1alpha1.ReservationInstruction {
	obj := &agentv1alpha1.ReservationInstruction{
		ObjectMeta: metaOf("default", "res-aaaaaaaaaa-1", "res-aaaaaaaaaa"),
		Spec:       agentv1alpha1.ReservationInstructionSpec{ReservationName: "res-aaaaaaaaaa", Placement: 1, TargetClusterID: "paris"},
	}
	for _, e := range edit {
		e(obj)
	}
	return obj
}

func providerObject() *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metaOf("default", "res-aaaaaaaaaa-1", "res-aaaaaaaaaa"),
		Spec:       agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-aaaaaaaaaa", Placement: 1, RequesterClusterID: "rome"},
	}
}

// outcome is the effect of one instruction.
type outcome struct {
	// consumer and provider are the state of the instruction object of that kind: "", "hold",
	// "release" or "unpeer".
	consumer, provider string
	requestRef         string
	namespaces         []string
	released           bool
	report             v1.StatusReportState
}

func TestInstructionsInEveryState(t *testing.T) {
	const consumer, provider = v1.InstructionRoleConsumer, v1.InstructionRoleProvider
	const hold, release, ended = v1.InstructionStateHold, v1.InstructionStateRelease, v1.InstructionStateEnded
	deleting := func(rr *agentv1alpha1.ResourceRequest) {
		rr.DeletionTimestamp, rr.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{agentv1alpha1.ReleaseFinalizer}
	}
	cases := map[string]struct {
		objects []client.Object
		in      v1.Instruction
		refuse  bool
		want    outcome
	}{
		"a consumer holds what its request asked for": {
			objects: []client.Object{request()}, in: instruction(consumer, hold, withKey(uid)),
			want: outcome{consumer: "hold", requestRef: uid, namespaces: []string{"team"}},
		},
		"a request that the cache does not show as asked yet counts": {
			objects: []client.Object{request(func(rr *agentv1alpha1.ResourceRequest) { rr.Status.Asked = false })},
			in:      instruction(consumer, hold, withKey(uid)),
			want:    outcome{consumer: "hold", requestRef: uid, namespaces: []string{"team"}},
		},
		"a request that is being deleted gets nothing": {
			objects: []client.Object{request(deleting)}, in: instruction(consumer, hold, withKey(uid)),
		},
		"a request that is gone gives its reservation back": {
			in: instruction(consumer, hold, withKey(uid)), want: outcome{released: true},
		},
		"a key of somebody else's making gives its reservation back": {
			in: instruction(consumer, hold, withKey("by-hand")), want: outcome{released: true},
		},
		"a reservation made in the broker cluster is taken, with no namespace": {
			in: instruction(consumer, hold), want: outcome{consumer: "hold"},
		},
		"or not, where that is turned off": {
			in: instruction(consumer, hold), refuse: true,
			want: outcome{report: v1.StatusReportStateRefused},
		},
		"one that was taken before that was turned off stays": {
			objects: []client.Object{consumerObject()},
			in:      instruction(consumer, hold), refuse: true, want: outcome{consumer: "hold"},
		},
		"a repetition without a key does not take the request out": {
			objects: []client.Object{consumerObject(func(o *agentv1alpha1.ReservationInstruction) {
				o.Spec.RequestRef = &agentv1alpha1.RequestReference{UID: uid}
				o.Spec.Namespaces = []string{"team"}
			})},
			in: instruction(consumer, hold), want: outcome{consumer: "hold", requestRef: uid, namespaces: []string{"team"}},
		},
		"a consumer releases what it has": {
			objects: []client.Object{consumerObject()}, in: instruction(consumer, release), want: outcome{consumer: "release"},
		},
		"a consumer that has nothing says so at once": {
			in: instruction(consumer, release), want: outcome{report: v1.StatusReportStateGone},
		},
		"what was released is not held again": {
			objects: []client.Object{consumerObject(func(o *agentv1alpha1.ReservationInstruction) { o.Spec.Release = true })},
			in:      instruction(consumer, hold), want: outcome{consumer: "release"},
		},
		"an end releases what a consumer still has": {
			objects: []client.Object{consumerObject()}, in: instruction(consumer, ended), want: outcome{consumer: "release"},
		},
		"an end of nothing is nothing to a consumer": {in: instruction(consumer, ended)},

		"a provider holds": {in: instruction(provider, hold), want: outcome{provider: "hold"}},
		"a provider releases what it has": {
			objects: []client.Object{providerObject()}, in: instruction(provider, release), want: outcome{provider: "release"},
		},
		"a provider looks what is left of what it does not know": {
			in: instruction(provider, release), want: outcome{provider: "release"},
		},
		"an end has the provider unpeer": {
			objects: []client.Object{providerObject()}, in: instruction(provider, ended), want: outcome{provider: "unpeer"},
		},
		"an end of nothing is nothing to a provider": {in: instruction(provider, ended)},

		"a consumer declines what it cannot read": {
			in:   instruction(consumer, hold, func(in *v1.Instruction) { in.Resources = v1.Amounts{"cpu": "lots"} }),
			want: outcome{report: v1.StatusReportStateRefused},
		},
		"a provider declines what it cannot read": {
			in:   instruction(provider, hold, func(in *v1.Instruction) { in.Resources = v1.Amounts{"cpu": "lots"} }),
			want: outcome{report: v1.StatusReportStateRefused},
		},
		"a placement does not change its provider": {
			objects: []client.Object{consumerObject()},
			in:      instruction(consumer, hold, func(in *v1.Instruction) { in.ProviderID = "berlin" }),
			want:    outcome{consumer: "hold", report: v1.StatusReportStateRefused},
		},
		"a placement does not change its requester": {
			objects: []client.Object{providerObject()},
			in:      instruction(provider, hold, func(in *v1.Instruction) { in.ConsumerID = "berlin" }),
			want:    outcome{provider: "hold", report: v1.StatusReportStateRefused},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tc.objects...)
			b := &released{Direct: transporttest.New("rome")}
			b.Instruct(tc.in)
			options := newOptions(c)
			options.RefuseBrokerReservations = tc.refuse
			inbox := NewInstructions(c, b, options)
			for range 2 { // the second pass brings nothing new
				before := c.writes()
				got, err := inbox.fetchAnswer(t.Context(), "")
				if err != nil || got.items != 1 || got.cursor != "1/1" {
					t.Fatalf("answer %+v, %v", got, err)
				}
				if again := before > 0; again && c.writes() != before {
					t.Errorf("%d more writes for the same", c.writes()-before)
				}
			}
			if diff := cmp.Diff(tc.want, outcomeOf(t, c, b), cmp.AllowUnexported(outcome{}), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// released records which reservations were given back.
type released struct {
	*transporttest.Direct
	keys []string
}

func (r *released) ReleaseReservation(ctx context.Context, key, user string) (*v1.Reservation, error) {
	r.keys = append(r.keys, key)
	return r.Direct.ReleaseReservation(ctx, key, user)
}

func outcomeOf(t *testing.T, c *cluster, b *released) outcome {
	t.Helper()
	out := outcome{released: len(b.keys) > 0}
	if reports := b.Reports(); len(reports) > 0 {
		out.report = reports[0].State
	}
	key := client.ObjectKey{Namespace: "default", Name: "res-aaaaaaaaaa-1"}
	consumer, provider := &agentv1alpha1.ReservationInstruction{}, &agentv1alpha1.ProviderInstruction{}
	if err := c.Get(t.Context(), key, consumer); err == nil {
		out.consumer, out.namespaces = "hold", consumer.Spec.Namespaces
		if consumer.Spec.Release {
			out.consumer = "release"
		}
		if consumer.Spec.RequestRef != nil {
			out.requestRef = consumer.Spec.RequestRef.UID
		}
		if consumer.Labels[agentv1alpha1.ManagedByLabel] != agentv1alpha1.ManagedByValue {
			t.Errorf("labels %v", consumer.Labels)
		}
	}
	if err := c.Get(t.Context(), key, provider); err == nil {
		out.provider = "hold"
		if provider.Spec.Release {
			out.provider = "release"
		}
		if provider.Spec.Unpeer {
			out.provider = "unpeer"
		}
	}
	return out
}

// A restored broker does not know the requirements of a placement until its consumer repeats the
// request. The placement's pods stay bound to the nodes it was granted for.
func TestPlacementKeepsNodesUnknownToBroker(t *testing.T) {
	c := newCluster(t)
	for _, nodes := range []map[string]string{{"gpu": "a100"}, nil} {
		in := instruction(v1.InstructionRoleProvider, v1.InstructionStateHold, func(in *v1.Instruction) {
			if in.NodeSelector = nodes; nodes != nil {
				in.Tolerations = []v1.Toleration{{Key: "dedicated"}}
			}
		})
		runtest.Check(t, writeProvider(t.Context(), c, &Options{Namespace: "default"}, &in, time.Now()))
	}
	obj := &agentv1alpha1.ProviderInstruction{}
	runtest.Check(t, c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "res-aaaaaaaaaa-1"}, obj))
	if got := obj.Spec.NodeSelector["gpu"]; got != "a100" || len(obj.Spec.Tolerations) != 1 {
		t.Errorf("node selector %v, tolerations %v, want gpu=a100 and dedicated", obj.Spec.NodeSelector, obj.Spec.Tolerations)
	}
}

func TestExpiryIsWrittenOnlyWhenItChanges(t *testing.T) {
	c := newCluster(t)
	received := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	write := func(remaining float64, later time.Duration) *metav1.Time {
		in := instruction(v1.InstructionRoleConsumer, v1.InstructionStateHold, func(in *v1.Instruction) { in.RemainingSeconds = &remaining })
		obj, err := Writer{Client: c, Namespace: "default"}.WriteConsumer(t.Context(), &in, Request{}, received.Add(later))
		runtest.Check(t, err)
		return obj.Spec.ExpiresAt
	}
	first := write(600, 0)
	if got := write(541.5, time.Minute); !got.Equal(first) || c.writes() != 1 {
		t.Errorf("expiry moved from %s to %s with %d writes", first, got, c.writes())
	}
	if got := write(600, time.Minute); !got.Equal(&metav1.Time{Time: first.Add(time.Minute)}) {
		t.Errorf("expiry stayed at %s", got)
	}
}

func TestCursorAdvancesAfterAllWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t)
		c.refuse(apierrors.NewServiceUnavailable("etcd is away"))
		b := transporttest.New("rome")
		b.Instruct(instruction(v1.InstructionRoleProvider, v1.InstructionStateHold))
		runtest.Start(t, NewInstructions(c, b, newOptions(c)))

		time.Sleep(10 * time.Minute)
		tries := c.writes()
		if tries < 60 || tries > 130 {
			t.Errorf("%d tries in ten minutes", tries)
		}
		c.refuse(nil)
		time.Sleep(time.Minute)
		written := c.writes()
		time.Sleep(time.Hour)
		if c.writes() != written {
			t.Errorf("%d writes of what was written", c.writes()-written)
		}

		// News arrives at once, and polling resumes when the broker is back.
		b.Instruct(instruction(v1.InstructionRoleProvider, v1.InstructionStateRelease))
		synctest.Wait()
		obj := &agentv1alpha1.ProviderInstruction{}
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "res-aaaaaaaaaa-1"}, obj); err != nil || !obj.Spec.Release {
			t.Errorf("not released at once: %v", err)
		}
		b.SetDown(true)
		time.Sleep(time.Hour)
		b.SetDown(false)
		b.Instruct(instruction(v1.InstructionRoleProvider, v1.InstructionStateEnded))
		time.Sleep(time.Minute)
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil || !obj.Spec.Unpeer {
			t.Errorf("not ended: %v", err)
		}
	})
}

// A deleted instruction is written again if the broker wants it carried out, and only then.
func TestDeletedInstructionIsRestored(t *testing.T) {
	provider := func(state v1.InstructionState) v1.Instruction {
		return instruction(v1.InstructionRoleProvider, state, func(in *v1.Instruction) { in.Placement = 2 })
	}
	synctest.Test(t, func(t *testing.T) {
		c, b := newCluster(t), transporttest.New("rome")
		b.Instruct(instruction(v1.InstructionRoleConsumer, v1.InstructionStateHold))
		b.Instruct(provider(v1.InstructionStateHold))
		runtest.Start(t, NewInstructions(c, b, newOptions(c)))
		objects := []client.Object{
			&agentv1alpha1.ReservationInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-aaaaaaaaaa-1"}},
			&agentv1alpha1.ProviderInstruction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-aaaaaaaaaa-2"}},
		}
		for _, obj := range objects {
			synctest.Wait()
			runtest.Check(t, c.Delete(t.Context(), obj))
			time.Sleep(longPoll)
			synctest.Wait()
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
				t.Errorf("not put back: %v", err)
			}
			obj.SetResourceVersion("")
		}
		b.Instruct(provider(v1.InstructionStateRelease))
		synctest.Wait()
		written := c.writes()
		runtest.Check(t, c.Delete(t.Context(), objects[1]))
		time.Sleep(time.Hour)
		if c.writes() != written {
			t.Errorf("%d writes of what has ended", c.writes()-written)
		}
	})
}

func TestFailedInstructionDoesNotDelayOthers(t *testing.T) {
	c := newCluster(t)
	b := transporttest.New("rome")
	b.Instruct(instruction(v1.InstructionRoleConsumer, v1.InstructionStateHold, withKey(uid))) // giving it back fails
	b.Instruct(instruction(v1.InstructionRoleProvider, v1.InstructionStateHold))
	_, err := NewInstructions(c, stubborn{b}, newOptions(c)).fetchAnswer(t.Context(), "")
	if err == nil || !strings.Contains(err.Error(), "res-aaaaaaaaaa") {
		t.Errorf("error %v", err)
	}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "res-aaaaaaaaaa-1"}, &agentv1alpha1.ProviderInstruction{}); err != nil {
		t.Error(err)
	}
}

// An unknown state from a newer broker must not be taken for the end of a placement.
func TestInstructionsForNewerAgentsAreSkipped(t *testing.T) {
	c := newCluster(t)
	b := transporttest.New("rome")
	b.Instruct(instruction(v1.InstructionRoleConsumer, v1.InstructionStateHold))
	b.Instruct(instruction(v1.InstructionRoleConsumer, "Freeze"))
	b.Instruct(instruction("Witness", v1.InstructionStateHold))
	if _, err := NewInstructions(c, b, newOptions(c)).fetchAnswer(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	got := &agentv1alpha1.ReservationInstructionList{}
	if err := c.List(t.Context(), got); err != nil || len(got.Items) != 1 || got.Items[0].Ended() {
		t.Errorf("%v, instructions %+v; want the one that is held", err, got.Items)
	}
}

// stubborn fails every release.
type stubborn struct{ *transporttest.Direct }

func (stubborn) ReleaseReservation(context.Context, string, string) (*v1.Reservation, error) {
	return nil, fmt.Errorf("%w: timeout", transport.ErrUnreachable)
}

func TestBrokerWithoutLongPollIsPolledAtInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		p := poller{
			ask:      func(context.Context, string) (answer, error) { polls++; return answer{cursor: "7"}, nil },
			interval: 5 * time.Second, clock: clock.RealClock{},
		}
		ctx, stop := context.WithTimeout(t.Context(), 58*time.Second)
		defer stop()
		runtest.Check(t, p.pollUntilDone(ctx))
		if polls != 12 {
			t.Errorf("%d polls in 58 seconds", polls)
		}
	})
}

func TestReturnedBrokerIsFoundSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		options := newOptions(nil)
		back := time.Now().Add(time.Hour)
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		p := poller{interval: options.Interval, clock: options.Clock}
		p.ask = func(context.Context, string) (answer, error) {
			if time.Now().Before(back) {
				return answer{}, transport.ErrUnreachable
			}
			stop()
			return answer{}, nil
		}
		runtest.Check(t, p.pollUntilDone(ctx))
		if late := time.Since(back); late > options.Interval*3/2 {
			t.Errorf("found %s after it was back, want at most an interval and half of it", late)
		}
	})
}

func TestConflictingWriteIsRepeatedSoonAndQuietly(t *testing.T) {
	for name, lost := range map[string]error{
		"an update": apierrors.NewConflict(schema.GroupResource{}, "res-1", nil),
		"a create":  apierrors.NewAlreadyExists(schema.GroupResource{}, "res-1"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				began, polls := time.Now(), 0
				options := newOptions(nil)
				logged := 0
				p := poller{interval: options.Interval, clock: options.Clock, log: funcr.New(func(string, string) { logged++ }, funcr.Options{})}
				p.ask = func(context.Context, string) (answer, error) {
					if polls++; polls > 1 {
						stop()
						return answer{}, nil
					}
					return answer{}, wrapWriteError("res-1", lost)
				}
				runtest.Check(t, p.pollUntilDone(ctx))
				if took := time.Since(began); took > 100*time.Millisecond || logged > 0 {
					t.Errorf("asked again after %s, %d lines logged", took, logged)
				}
			})
		})
	}
}

func TestUnchangedCursorKeepsPollInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		polls := 0
		options := newOptions(nil)
		p := poller{
			ask:      func(context.Context, string) (answer, error) { polls++; return answer{cursor: "7", items: 3}, nil },
			interval: options.Interval, clock: options.Clock,
		}
		ctx, stop := context.WithTimeout(t.Context(), 58*time.Second)
		defer stop()
		runtest.Check(t, p.pollUntilDone(ctx))
		if polls > 13 {
			t.Errorf("%d polls in 58 seconds", polls)
		}
	})
}

func TestMessagesAreDeliveredInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := transporttest.New("rome")
		got := make(chan string, 8)
		stop := runtest.Start(t, NewMessages(b, handler(got), newOptions(nil)))
		b.Post(v1.Message{From: "paris", Body: []byte("refused")})
		b.Post(v1.Message{From: "paris", Body: []byte("two")})
		synctest.Wait()
		time.Sleep(time.Hour)
		b.Post(v1.Message{From: "berlin", Body: []byte("three")})
		synctest.Wait()
		stop()
		close(got)
		var all []string
		for m := range got {
			all = append(all, m)
		}
		if diff := cmp.Diff([]string{"paris: refused", "paris: two", "berlin: three"}, all); diff != "" {
			t.Errorf("messages (-want +got):\n%s", diff)
		}
	})
}

type handler chan string

func (h handler) Deliver(_ context.Context, from string, body []byte) error {
	h <- from + ": " + string(body)
	if string(body) == "refused" {
		return errors.New("not signed")
	}
	return nil
}

func TestInstructionThatTheAPIServerRefusesIsDeclined(t *testing.T) {
	c := newCluster(t)
	c.refuse(apierrors.NewInvalid(schema.GroupKind{Group: "liqo.io", Kind: "ProviderInstruction"}, "x", nil))
	b := transporttest.New("rome")
	b.Instruct(instruction(v1.InstructionRoleProvider, v1.InstructionStateHold))
	if _, err := NewInstructions(c, b, newOptions(c)).fetchAnswer(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if reports := b.Reports(); len(reports) != 1 || reports[0].State != v1.StatusReportStateRefused {
		t.Errorf("reports %+v", reports)
	}
}
