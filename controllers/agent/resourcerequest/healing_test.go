package resourcerequest

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// placement returns the instruction of the only reservation with the given placement number.
func (b *bench) placement(number int32) *agentv1alpha1.ReservationInstruction {
	b.Helper()
	for _, inst := range b.instructions() {
		if inst.Spec.Placement == number {
			return &inst
		}
	}
	b.Fatalf("no placement %d", number)
	return nil
}

func (b *bench) write(err error) {
	b.Helper()
	runtest.Check(b, err)
	b.after(time.Second)
}

// beside creates the instruction that the inbox writes when another provider gets a placement.
func (b *bench) beside(provider string) {
	b.Helper()
	second := b.placement(1)
	second.ObjectMeta = metav1.ObjectMeta{
		Namespace: second.Namespace, Name: second.Spec.ReservationName + "-2", Labels: second.Labels,
	}
	if b.standing != nil {
		b.standing.Instruction.Placement, b.standing.Instruction.ProviderID = 2, provider
		b.standing.Placements = append(b.standing.Placements, v1.Placement{Number: 2, ClusterID: provider, State: v1.PlacementStateAssigned})
	}
	second.Spec.Placement, second.Spec.TargetClusterID, second.Spec.ProviderSilentSince = 2, provider, nil
	second.Status = agentv1alpha1.ReservationInstructionStatus{}
	b.write(b.client.Create(b.Context(), second))
}

func (b *bench) silent(number int32, since *metav1.Time) {
	b.Helper()
	inst := b.placement(number)
	inst.Spec.ProviderSilentSince = since
	b.write(b.client.Update(b.Context(), inst))
}

func (b *bench) node(number int32, edit func(*agentv1alpha1.ReservationInstruction)) {
	b.Helper()
	inst := b.placement(number)
	edit(inst)
	b.write(b.client.Status().Update(b.Context(), inst))
}

// give acts as the inbox that hears that the broker gave a placement up.
func (b *bench) give(number int32) {
	b.Helper()
	inst := b.placement(number)
	if inst.Spec.ProviderSilentSince != nil {
		inst.Spec.ProviderSilentSince, inst.Spec.Reason = nil, agentv1alpha1.ReasonProviderLost
	}
	inst.Spec.Release = true
	b.write(b.client.Update(b.Context(), inst))
}

// expectServed compares the phase, the target and the reason of ProviderReachable.
func (b *bench) expectServed(when string, want ...string) {
	b.Helper()
	s := b.request().Status
	got := []string{string(s.Phase), s.TargetClusterID}
	if c := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionProviderReachable); c != nil {
		got = append(got, string(c.Status), c.Reason)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		b.Errorf("%s (-want +got):\n%s", when, diff)
	}
}

// servedByALostProvider returns a request that was Active when its provider fell silent.
func servedByALostProvider(t *testing.T) (b *bench, lost string) {
	t.Helper()
	b, _ = active(t)
	since := metav1.NewTime(b.clock.Now().Truncate(time.Second))
	b.silent(1, &since)
	return b, b.request().Status.TargetClusterID
}

func TestRequestStaysActiveDuringTakeover(t *testing.T) {
	b, lost := servedByALostProvider(t)
	b.expectServed("once its provider is silent", "Active", lost, "False", "ProviderSilent")
	b.beside("oslo")
	b.expectServed("with a second placement", "Active", lost, "False", "Migrating")
	b.expectEvent("Warning Migrating")
	b.node(2, nodeReady)
	b.expectServed("once the new node is Ready", "Active", "oslo", "False", "Migrating")
	b.give(1)
	b.expectServed("once the old one is given up", "Active", "oslo", "True", "Migrated")
	b.expectEvent("Normal Migrated")
	if inst := b.placement(2); inst.Spec.Release {
		t.Error("the placement that serves is released")
	}
	b.write(b.client.Delete(t.Context(), b.placement(1)))
	b.expectServed("once the old one is gone", "Active", "oslo", "True", "Migrated")
}

func TestRequestKeepsReturnedProvider(t *testing.T) {
	b, lost := servedByALostProvider(t)
	b.beside("oslo")
	b.silent(1, nil)
	b.give(2)
	b.expectServed("once it is back", "Active", lost, "True", "ProviderBack")
}

func TestRequestIsNotActiveWithoutReadyNode(t *testing.T) {
	b, _ := servedByALostProvider(t)
	b.beside("oslo")
	b.node(1, func(inst *agentv1alpha1.ReservationInstruction) {
		meta.SetStatusCondition(&inst.Status.Conditions, metav1.Condition{
			Type: agentv1alpha1.ConditionNodeReady, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonNodeNotReady,
		})
	})
	b.expectServed("with neither", "Reserved", "oslo", "False", "Migrating")
	b.delete()
	b.after(time.Second)
	for _, inst := range b.instructions() {
		if !inst.Spec.Release {
			t.Errorf("%s is not released with its request", client.ObjectKeyFromObject(&inst))
		}
	}
}

func TestRequestShowsWhenItMayMove(t *testing.T) {
	b, _ := servedByALostProvider(t)
	inst := b.placement(1)
	inst.Spec.MoveAt = new(metav1.NewTime(b.clock.Now().Add(5 * time.Minute)))
	b.write(b.client.Update(b.Context(), inst))
	after := "the request moves to another cluster with room after " + inst.Spec.MoveAt.UTC().Format(time.RFC3339) +
		"; the broker looks for one every 30s, and Kubernetes evicts the pods of a node that is not Ready after 5m"
	if s := b.request().Status; !strings.Contains(s.Message, after) {
		t.Errorf("its provider is silent: %q, want %q", s.Message, after)
	}
	inst = b.placement(1)
	inst.Spec.ProviderSilentSince = nil
	b.write(b.client.Update(b.Context(), inst))
	b.node(1, nodeLost)
	if s := b.request().Status; s.Reason != agentv1alpha1.ReasonNodeNotReady || !strings.Contains(s.Message, after) {
		t.Errorf("its node is not Ready: %s: %q, want %q", s.Reason, s.Message, after)
	}
	inst = b.placement(1)
	inst.Spec.MoveAt = new(metav1.NewTime(b.clock.Now()))
	b.write(b.client.Update(b.Context(), inst))
	if s := b.request().Status; !strings.Contains(s.Message, "the request moves to another cluster with room; the broker looks for one every 30s") {
		t.Errorf("once it may move: %q", s.Message)
	}
}

func TestRequestShowsWhyItCannotMove(t *testing.T) {
	b, _ := active(t, withDuration(24*time.Hour)) // no renewal asks the broker meanwhile
	b.silent(1, new(metav1.NewTime(b.clock.Now().Truncate(time.Second))))
	asked := 0
	b.broker.Quote = func(string, *v1.ReservationRequest) (*v1.Quote, error) {
		asked++
		return &v1.Quote{Message: "no cluster can hold 500m cpu: oslo: has 100m cpu free"}, nil
	}
	inst := b.placement(1)
	inst.Spec.MoveAt = new(metav1.NewTime(b.clock.Now().Add(time.Minute)))
	b.write(b.client.Update(b.Context(), inst))
	const why = "the request cannot move to another cluster: no cluster can hold 500m cpu: oslo: has 100m cpu free; the broker looks for one every 30s"
	if s := b.request().Status; asked > 0 || strings.Contains(s.Message, why) {
		t.Errorf("before it may move, the broker is asked %d times, and the message is %q", asked, s.Message)
	}
	b.after(time.Minute)
	b.after(time.Minute)
	if s := b.request().Status; asked != 1 || !strings.Contains(s.Message, why) {
		t.Errorf("once it may move, the broker is asked %d times, and the message is %q", asked, s.Message)
	}
	b.after(obstacleFor)
	if asked != 2 {
		t.Errorf("later the broker has been asked %d times, want 2", asked)
	}
	b.beside("oslo")
	if s := b.request().Status; asked != 2 || strings.Contains(s.Message, "cannot move") {
		t.Errorf("when oslo takes over, the broker has been asked %d times, and the message is %q", asked, s.Message)
	}
}

func nodeLost(inst *agentv1alpha1.ReservationInstruction) {
	inst.Status.Delivered = true
	says(agentv1alpha1.ConditionNodeReady, metav1.ConditionFalse, agentv1alpha1.ReasonNodeNotReady, "the kubelet is gone")(inst)
}

func TestNoticeOfMoveFromANodeThatIsNotReady(t *testing.T) {
	b, _ := active(t)
	b.node(1, nodeLost)
	b.expectNoCondition("nobody takes over", agentv1alpha1.ConditionEnding)
	b.beside("oslo")
	b.expectCondition("oslo prepares", agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonMigrating)
	b.expectEvent("Warning Migrating")
	b.node(2, nodeReady)
	b.expectNoCondition("oslo serves", agentv1alpha1.ConditionEnding)
}
