package inbox

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
)

func condition(kind string) []metav1.Condition {
	return []metav1.Condition{{Type: kind, Status: metav1.ConditionTrue, Reason: "Test"}}
}

func providing(edit ...func(*agentv1alpha1.ProviderInstruction)) *agentv1alpha1.ProviderInstruction {
	p := &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-provided00-1"},
		Spec: agentv1alpha1.ProviderInstructionSpec{
			ReservationName: "res-provided00", Placement: 1, RequesterClusterID: "berlin",
			Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		},
		Status: agentv1alpha1.ProviderInstructionStatus{Phase: agentv1alpha1.InstructionActive, Conditions: condition(agentv1alpha1.ConditionAcknowledged)},
	}
	for _, e := range edit {
		e(p)
	}
	return p
}

func consuming(edit ...func(*agentv1alpha1.ReservationInstruction)) *agentv1alpha1.ReservationInstruction {
	i := &agentv1alpha1.ReservationInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-consumed00-2"},
		Spec: agentv1alpha1.ReservationInstructionSpec{
			ReservationName: "res-consumed00", Placement: 2, TargetClusterID: "paris",
			RequestRef: &agentv1alpha1.RequestReference{Namespace: "team", Name: "mine", UID: uid},
		},
		Status: agentv1alpha1.ReservationInstructionStatus{Phase: agentv1alpha1.InstructionActive, Conditions: condition(agentv1alpha1.ConditionNodeReady)},
	}
	for _, e := range edit {
		e(i)
	}
	return i
}

func reserved(edit ...func(*agentv1alpha1.ResourceRequest)) *agentv1alpha1.ResourceRequest {
	cpu := resource.MustParse("2")
	return request(append([]func(*agentv1alpha1.ResourceRequest){func(rr *agentv1alpha1.ResourceRequest) {
		rr.Spec.CPU = &cpu
		rr.Status.ReservationName, rr.Status.TargetClusterID = "res-consumed00", "paris"
	}}, edit...)...)
}

func TestHoldings(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	body := v1.ReservationRequest{RequesterID: "rome", Resources: v1.Amounts{"cpu": "2"}}
	asked := v1.ConsumedReservation{Reservation: "res-consumed00", ProviderID: "paris", Key: uid, Request: body}
	carried := v1.ConsumedReservation{Reservation: "res-consumed00", Placement: 2, ProviderID: "paris", Key: uid, Request: body, Ready: true}
	kept := v1.ProvidedPlacement{Reservation: "res-provided00", Placement: 1, ConsumerID: "berlin", Resources: v1.Amounts{"cpu": "2"}, Acknowledged: true}
	releasing := func(c v1.ConsumedReservation) v1.ConsumedReservation { c.Releasing = true; return c }

	tests := map[string]struct {
		objects  []client.Object
		provides []v1.ProvidedPlacement
		consumes []v1.ConsumedReservation
	}{
		"nothing": {},
		"a placement that is provided": {
			objects: []client.Object{providing()}, provides: []v1.ProvidedPlacement{kept},
		},
		"one with an end": {
			objects: []client.Object{providing(func(p *agentv1alpha1.ProviderInstruction) {
				p.Spec.ExpiresAt = &metav1.Time{Time: now.Add(time.Minute)}
			})},
			provides: []v1.ProvidedPlacement{func() v1.ProvidedPlacement {
				p, left := kept, 60.0
				p.RemainingSeconds = &left
				return p
			}()},
		},
		"one that is being taken down": {
			objects:  []client.Object{providing(func(p *agentv1alpha1.ProviderInstruction) { p.Spec.Release = true })},
			provides: []v1.ProvidedPlacement{func() v1.ProvidedPlacement { p := kept; p.Releasing = true; return p }()},
		},
		"not one of which nothing is left, nor one that was refused": {
			objects: []client.Object{
				providing(func(p *agentv1alpha1.ProviderInstruction) { p.Status.Phase = agentv1alpha1.InstructionReleased }),
				providing(func(p *agentv1alpha1.ProviderInstruction) {
					p.Name, p.Status.Phase = "other", agentv1alpha1.InstructionRefused
				}),
			},
		},
		"a request and its placement": {
			objects: []client.Object{reserved(), consuming()}, consumes: []v1.ConsumedReservation{asked, carried},
		},
		"a request without an answer": {
			objects:  []client.Object{reserved(func(rr *agentv1alpha1.ResourceRequest) { rr.Status.ReservationName, rr.Status.TargetClusterID = "", "" })},
			consumes: []v1.ConsumedReservation{{Key: uid, Request: body}},
		},
		"a request that the answer was not written to yet": {
			objects: []client.Object{
				reserved(func(rr *agentv1alpha1.ResourceRequest) { rr.Status.ReservationName, rr.Status.TargetClusterID = "", "" }), consuming(),
			},
			consumes: []v1.ConsumedReservation{{Key: uid, Request: body}, carried},
		},
		"a placement whose request is gone": {
			objects:  []client.Object{consuming()},
			consumes: []v1.ConsumedReservation{releasing(v1.ConsumedReservation{Reservation: "res-consumed00", Placement: 2, ProviderID: "paris", Ready: true})},
		},
		"a placement whose request got another reservation": {
			objects: []client.Object{
				reserved(func(rr *agentv1alpha1.ResourceRequest) { rr.Status.ReservationName = "res-another00" }), consuming(),
			},
			consumes: []v1.ConsumedReservation{
				{Reservation: "res-another00", ProviderID: "paris", Key: uid, Request: body},
				releasing(v1.ConsumedReservation{Reservation: "res-consumed00", Placement: 2, ProviderID: "paris", Ready: true}),
			},
		},
		"a placement that was made in the broker cluster": {
			objects:  []client.Object{consuming(func(i *agentv1alpha1.ReservationInstruction) { i.Spec.RequestRef = nil })},
			consumes: []v1.ConsumedReservation{{Reservation: "res-consumed00", Placement: 2, ProviderID: "paris", Ready: true}},
		},
		"not a request that is over": {
			objects: []client.Object{reserved(func(rr *agentv1alpha1.ResourceRequest) { rr.Status.Phase = agentv1alpha1.RequestFailed })},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			broker := transporttest.New("rome")
			broker.AskHoldings()
			c := newCluster(t, test.objects...)
			options := newOptions(c)
			options.Clock = clocktesting.NewFakeClock(now)
			i := NewInstructions(c, broker, options)
			if _, err := i.fetchAnswer(t.Context(), "of another lineage"); err != nil {
				t.Fatal(err)
			}
			want := &v1.Holdings{Provides: test.provides, Consumes: test.consumes}
			if want.Provides == nil {
				want.Provides = []v1.ProvidedPlacement{}
			}
			if want.Consumes == nil {
				want.Consumes = []v1.ConsumedReservation{}
			}
			if diff := cmp.Diff([]*v1.Holdings{want}, broker.Announced()); diff != "" {
				t.Errorf("announced (-want +got):\n%s", diff)
			}
		})
	}
}

// Instructions that the broker sent before it received the holdings are not carried out.
func TestInstructionsWaitUntilHoldingsAreAnnounced(t *testing.T) {
	c, broker := newCluster(t, reserved()), transporttest.New("rome")
	broker.Instruct(v1.Instruction{Reservation: "res-provided00", Placement: 1, Role: v1.InstructionRoleProvider, State: v1.InstructionStateHold, ConsumerID: "berlin", Resources: v1.Amounts{"cpu": "1"}})
	broker.AskHoldings()
	broker.SetDown(false)
	i := NewInstructions(c, announceFails{broker}, newOptions(c))
	if _, err := i.fetchAnswer(t.Context(), ""); err == nil {
		t.Error("an announcement that nobody took is no error")
	}
	if c.writes() != 0 {
		t.Errorf("%d writes, want none", c.writes())
	}
}

type announceFails struct{ *transporttest.Direct }

func (announceFails) AnnounceHoldings(context.Context, *v1.Holdings) error {
	return transport.ErrUnreachable
}
