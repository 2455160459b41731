package resourcerequest

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const secondKey = uid + ".1"

// refuseAbove makes the broker refuse requests for more CPU than the given amount.
func (b *bench) refuseAbove(most string) {
	b.broker.Decide = func(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
		asked, limit := resource.MustParse(req.Resources["cpu"]), resource.MustParse(most)
		if asked.Cmp(limit) > 0 {
			return nil, fault.New(fault.NoCandidate, "no cluster can hold cpu=%s", req.Resources["cpu"])
		}
		return transporttest.Grant(name, req)
	}
}

func (b *bench) editCPU(amount string) {
	b.Helper()
	cpu := resource.MustParse(amount)
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.CPU = &cpu })
}

// settle reconciles until the request has had time for every step.
func (b *bench) settle() {
	b.Helper()
	for range 5 {
		b.after(time.Second)
	}
}

// failed returns a request for 500m that no cluster can hold.
func failed(t *testing.T) *bench {
	b := newBench(t)
	b.refuseAbove("400m")
	b.settle()
	b.expectState(agentv1alpha1.RequestFailed, agentv1alpha1.ReasonNoCandidate)
	return b
}

// ended returns a request whose reservation the broker has ended, and whose node is gone.
func ended(why v1.ReservationEndReason) func(*testing.T) *bench {
	return func(t *testing.T) *bench {
		b := newBench(t)
		standing := b.granted()
		b.carriedOut(nodeReady)
		b.after(time.Second)
		standing.Phase, standing.EndReason, standing.Message = v1.ReservationPhaseReleasing, why, "so it is"
		standing.Instruction.State = v1.InstructionStateRelease
		b.after(time.Minute)
		b.takenDown()
		b.after(time.Second)
		b.refuseAbove("400m")
		return b
	}
}

func TestEditedRequestThatIsOverIsAskedForAgain(t *testing.T) {
	for name, over := range map[string]func(*testing.T) *bench{
		"refused":   failed,
		"lost":      ended(v1.ReservationEndReasonFailed),
		"expired":   ended(v1.ReservationEndReasonExpired),
		"preempted": ended(v1.ReservationEndReasonPreempted),
	} {
		t.Run(name, func(t *testing.T) {
			b := over(t)
			b.after(time.Hour)
			if n := len(b.broker.Requests()); n > 2 || !isOver(b.request().Status.Phase) {
				t.Fatalf("it was asked for %d times without an edit", n)
			}
			b.editCPU("450m")
			b.settle()
			b.expectState(agentv1alpha1.RequestFailed, agentv1alpha1.ReasonNoCandidate)
			b.editCPU("300m")
			b.settle()
			b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
			if diff := cmp.Diff([]string{uid + ".2"}, b.broker.Held()); diff != "" {
				t.Errorf("held (-want +got):\n%s", diff)
			}
			if got := b.request().Status; got.Attempt != 2 || got.ReservationName == "" || got.Granted == nil {
				t.Errorf("status %+v", got)
			}
		})
	}
}

func TestReleasedRequestIsNotAskedForAgain(t *testing.T) {
	b := newBench(t)
	b.after(0)
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.Release = true })
	b.after(time.Second)
	b.takenDown()
	b.settle()
	b.editCPU("1")
	b.settle()
	b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
	if n := len(b.broker.Requests()); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

func TestFailedRequestIsReleasedByItsSpec(t *testing.T) {
	b := failed(t)
	b.edit(func(s *agentv1alpha1.ResourceRequestSpec) { s.Release = true })
	b.settle()
	b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
}

// An edit that reaches the broker after the end of the reservation is not lost.
func TestEditAtTheEndOfAReservationIsAskedForAgain(t *testing.T) {
	b := newBench(t)
	standing := b.granted()
	b.carriedOut(nodeReady)
	b.after(time.Second)
	standing.Phase, standing.EndReason = v1.ReservationPhaseReleasing, v1.ReservationEndReasonExpired
	standing.Instruction.State = v1.InstructionStateRelease
	b.after(time.Minute)
	b.editCPU("1")
	b.after(time.Second)
	if rr := b.request(); rr.Status.ObservedGeneration != 1 {
		t.Errorf("generation %d is observed, and the broker has not seen the edit", rr.Status.ObservedGeneration)
	}
	b.takenDown()
	b.settle()
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
	if diff := cmp.Diff([]string{secondKey}, b.broker.Held()); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

// A call of the first attempt that reaches the broker after the second attempt has begun reserves nothing.
func TestLateCallOfAnEarlierAttemptReservesNothing(t *testing.T) {
	b := failed(t)
	b.refuseAbove("8")
	b.editCPU("300m")
	b.settle()
	if _, err := b.broker.RequestReservation(t.Context(), uid, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "500m"}}); fault.ReasonOf(err) != fault.Released {
		t.Errorf("the late call got %v", err)
	}
	if diff := cmp.Diff([]string{secondKey}, b.broker.Held()); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

// A late call of the first attempt was granted, and the inbox has stored its instruction. Two nodes must not serve one
// request.
func TestNextAttemptWaitsUntilNothingOfTheLastOneIsLeft(t *testing.T) {
	b := failed(t)
	b.refuseAbove("8")
	late, err := b.broker.RequestReservation(t.Context(), uid, &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "500m"}})
	runtest.Check(t, err)
	writer := inbox.Writer{Client: b.client, Namespace: "default"}
	if _, err := writer.WriteConsumer(t.Context(), &late.Instruction, inbox.RequestOf(b.request(), nil), b.clock.Now()); err != nil {
		t.Fatal(err)
	}
	b.editCPU("300m")
	b.settle()
	if held := b.broker.Held(); len(held) > 0 || b.request().Status.Attempt > 0 {
		t.Errorf("attempt %d holds %q before the last one is gone", b.request().Status.Attempt, held)
	}
	b.takenDown()
	b.settle()
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
	if diff := cmp.Diff([]string{secondKey}, b.broker.Held()); diff != "" {
		t.Errorf("held (-want +got):\n%s", diff)
	}
}

func TestEditWaitsForTheBrokerThatIsAway(t *testing.T) {
	b := failed(t)
	b.broker.SetDown(true)
	b.editCPU("300m")
	if again := b.after(time.Second); again <= 0 || again > lastRetry {
		t.Errorf("tries again in %s", again)
	}
	rr := b.request()
	if rr.Status.ObservedGeneration != 1 || rr.Status.Reason != agentv1alpha1.ReasonBrokerUnreachable {
		t.Errorf("observed %d, %s: %s", rr.Status.ObservedGeneration, rr.Status.Reason, rr.Status.Message)
	}
	b.broker.SetDown(false)
	b.after(lastRetry)
	b.settle()
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
}

func TestDeletionOfALaterAttemptGivesItBack(t *testing.T) {
	b := failed(t)
	b.editCPU("300m")
	b.settle()
	b.delete()
	b.after(time.Second)
	b.takenDown()
	b.after(time.Second)
	b.expectGone()
}

// crash kills the agent after a number of effects, which are writes to the API server and answers of the broker.
type crash struct {
	Broker
	left int
}

// killed is what a killed agent panics with.
type killed struct{}

func (c *crash) hit(err error) error {
	if c.left--; c.left == 0 && err == nil {
		panic(killed{})
	}
	return err
}

func (c *crash) RequestReservation(ctx context.Context, key string, req *v1.ReservationRequest) (*v1.Reservation, error) {
	r, err := c.Broker.RequestReservation(ctx, key, req)
	return r, c.hit(err)
}

func (c *crash) ReleaseReservation(ctx context.Context, key, user string) (*v1.Reservation, error) {
	r, err := c.Broker.ReleaseReservation(ctx, key, user)
	return r, c.hit(err)
}

// intercepted returns a client whose writes count as effects.
func (c *crash) intercepted(inner client.Client) client.Client {
	return interceptor.NewClient(inner.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return c.hit(w.Create(ctx, o, opts...))
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return c.hit(w.Patch(ctx, o, p, opts...))
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return c.hit(w.SubResource(sub).Patch(ctx, o, p, opts...))
		},
	})
}

// settleKilled settles with an agent that is killed after n effects, and reports whether it was.
func (b *bench) settleKilled(n int) (wasKilled bool) {
	b.Helper()
	c := &crash{Broker: b.broker, left: n}
	b.Reconciler = New(c.intercepted(b.client), c, b.events, b.defaults())
	defer func() {
		if r := recover(); r != nil && r != any(killed{}) {
			panic(r)
		} else if r != nil {
			wasKilled = true
		}
	}()
	b.settle()
	return false
}

// However often the agent is killed, an edit reserves once, under the next key.
func TestEditReservesOnceWhereverTheAgentIsKilled(t *testing.T) {
	for name, over := range map[string]func(*testing.T) *bench{"refused": failed, "lost": ended(v1.ReservationEndReasonFailed)} {
		t.Run(name, func(t *testing.T) {
			kills := 0
			for n := 1; ; n++ {
				b := over(t)
				b.editCPU("300m")
				if !b.settleKilled(n) {
					break
				}
				kills++
				b.Reconciler = New(b.client, b.broker, b.events, b.defaults())
				b.settle()
				b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
				if held := b.broker.Held(); !slices.Equal(held, []string{secondKey}) {
					t.Errorf("killed after %d effects, the broker holds %q", n, held)
				}
				if all := b.instructions(); len(all) != 1 || !isStanding(&all[0]) {
					t.Errorf("killed after %d effects, there are instructions %+v", n, all)
				}
			}
			if kills < 4 {
				t.Errorf("it was killed at %d places only", kills)
			}
		})
	}
}

func TestRefusedEditIsVisible(t *testing.T) {
	b := newBench(t, withDuration(time.Hour))
	b.after(0)
	b.carriedOut(nodeReady)
	b.after(time.Second)
	until := b.request().Status.ExpiresAt
	b.broker.RefuseChange = fault.New(fault.Conflict, "paris has 12 cpu free")
	b.editCPU("300")
	b.settle()
	s := b.request().Status
	if got := s.Granted; got == nil || got.Resources.Cpu().String() != "500m" || !got.Until.Equal(until) {
		t.Errorf("granted %+v", got)
	}
	if want := "Ready; the change to cpu=300 was refused: paris has 12 cpu free"; s.Message != want || s.Reason != agentv1alpha1.ReasonChangeRefused {
		t.Errorf("%s: %q, want %q", s.Reason, s.Message, want)
	}
	b.expectState(agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
	if !meta.IsStatusConditionTrue(s.Conditions, agentv1alpha1.ConditionReady) {
		t.Error("it is not Ready")
	}
}
