package resourcerequest

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// movesTo acts as the broker that moves the reservation, and as the inbox that hears of it.
func (b *bench) movesTo(standing *v1.Reservation, provider string) {
	b.Helper()
	standing.Candidates = []v1.Candidate{{ClusterID: provider, PricePerHour: "0.12", Currency: "EUR"}}
	b.beside(provider)
	b.node(2, nodeReady)
	b.give(1)
}

// active returns an Active request on paris, with the broker's reservation.
func active(t *testing.T, edit ...func(*agentv1alpha1.ResourceRequest)) (*bench, *v1.Reservation) {
	t.Helper()
	b := newBench(t, edit...)
	standing := b.granted()
	b.carriedOut(nodeReady)
	b.after(time.Second)
	return b, standing
}

func TestMovedRequestShowsWhereItIs(t *testing.T) {
	b, standing := active(t, withDuration(time.Hour))
	b.node(1, says(agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonRecallNotice, "paris recalls it"))
	b.node(1, says(agentv1alpha1.ConditionDrained, metav1.ConditionTrue, agentv1alpha1.ReasonDrained, "no pod is left on node 1"))
	b.movesTo(standing, "berlin")
	s := b.request().Status
	c := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReserved)
	if want := `capacity is held on "berlin" as reservation "res-0000000001"`; c.Message != want || c.Status != metav1.ConditionTrue {
		t.Errorf("Reserved is %s: %q, want %q", c.Status, c.Message, want)
	}
	b.expectNoCondition("on berlin", agentv1alpha1.ConditionEnding)
	b.expectNoCondition("on berlin", agentv1alpha1.ConditionDrained)
	if len(s.Candidates) != 1 || s.Candidates[0].PricePerHour != "0.12" {
		t.Errorf("candidates %+v are those of an earlier decision", s.Candidates)
	}
	if s.Reason != agentv1alpha1.ReasonNodeReady || s.TargetClusterID != "berlin" || s.NodeName != "res-0000000001-2" {
		t.Errorf("%s on %s, node %s", s.Reason, s.TargetClusterID, s.NodeName)
	}
}

func TestPriceOfEarlierAmountsIsNotShown(t *testing.T) {
	b, standing := active(t, withDuration(time.Hour))
	standing.Candidates = []v1.Candidate{{ClusterID: "paris", Score: "75.00", PricePerHour: "0.08", Currency: "EUR"}}
	b.editCPU("2")
	b.settle()
	b.broker.Agree()
	b.settle()
	for _, c := range b.request().Status.Candidates {
		if c.PricePerHour != "" || c.Currency != "" {
			t.Errorf("%s costs %s %s, for other amounts", c.ClusterID, c.PricePerHour, c.Currency)
		}
	}
}

func TestExpiredRequestShowsNothingOfItsPlacement(t *testing.T) {
	b := ended(v1.ReservationEndReasonExpired)(t)
	b.expectState(agentv1alpha1.RequestReleased, agentv1alpha1.ReasonReleased)
	s := b.request().Status
	if s.TargetClusterID != "" || s.TargetClusterEndpoint != "" || s.NodeName != "" || s.Granted != nil {
		t.Errorf("it shows %q, %q, %q and %+v", s.TargetClusterID, s.TargetClusterEndpoint, s.NodeName, s.Granted)
	}
	if s.ReservationName == "" || s.ReservedAt == nil {
		t.Errorf("nothing tells what it was: %+v", s)
	}
}

func TestPreemptedRequestFails(t *testing.T) {
	b := ended(v1.ReservationEndReasonPreempted)(t)
	b.expectState(agentv1alpha1.RequestFailed, agentv1alpha1.ReasonPreempted)
	if s := b.request().Status; s.Reason != agentv1alpha1.ReasonPreempted || !strings.Contains(s.Message, "so it is") {
		t.Errorf("%s: %s", s.Reason, s.Message)
	}
}

func TestThreatToAnActiveRequestIsInItsColumns(t *testing.T) {
	for reason, threaten := range map[string]func(*bench){
		agentv1alpha1.ReasonProviderUnreachable: func(b *bench) {
			b.node(1, says(agentv1alpha1.ConditionHealthy, metav1.ConditionFalse, agentv1alpha1.ReasonProviderUnreachable, "no way to paris"))
		},
		agentv1alpha1.ReasonProviderSilent: func(b *bench) { b.silent(1, new(metav1.NewTime(b.clock.Now()))) },
		agentv1alpha1.ReasonExpiring: func(b *bench) {
			b.node(1, says(agentv1alpha1.ConditionEnding, metav1.ConditionTrue, agentv1alpha1.ReasonExpiring, "soon"))
		},
		agentv1alpha1.ReasonNotice:       func(b *bench) { b.notice(v1.NoticeReasonPreempted) },
		agentv1alpha1.ReasonRecallNotice: func(b *bench) { b.notice(v1.NoticeReasonRecalled) },
	} {
		t.Run(reason, func(t *testing.T) {
			b, _ := active(t)
			threaten(b)
			s := b.request().Status
			if s.Phase != agentv1alpha1.RequestActive || s.Reason != reason || !strings.HasPrefix(s.Message, "Ready; ") {
				t.Errorf("phase %s, reason %s, message %q", s.Phase, s.Reason, s.Message)
			}
			if c := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReady); c.Reason != agentv1alpha1.ReasonNodeReady || c.Status != metav1.ConditionTrue {
				t.Errorf("Ready is %s because of %s", c.Status, c.Reason)
			}
		})
	}
}

// notice acts as the inbox that hears of a notice that ends in ten minutes.
func (b *bench) notice(reason v1.NoticeReason) {
	b.Helper()
	inst := b.placement(1)
	inst.Spec.Notice = &agentv1alpha1.Notice{Reason: string(reason), Message: "it has to go", EndsAt: metav1.NewTime(b.clock.Now().Add(10 * time.Minute))}
	b.write(b.client.Update(b.Context(), inst))
}

func TestNoticeShortensWhatIsGranted(t *testing.T) {
	b, _ := active(t, withDuration(time.Hour))
	b.notice(v1.NoticeReasonRecalled)
	if got := b.request().Status.Granted; got == nil || !got.Until.Time.Equal(b.placement(1).Spec.Notice.EndsAt.Time) {
		t.Errorf("granted %+v", got)
	}
}

// When a request reaches a place in the queue that the status of another request still shows, the
// agent asks the broker for the place of the other request.
func TestPlacesOfOneClusterInTheQueueDiffer(t *testing.T) {
	b := newBench(t)
	first := &agentv1alpha1.ResourceRequest{}
	first.Namespace, first.Name, first.UID, first.Generation = "team", "first", "uid-of-the-first", 1
	runtest.Check(t, b.client.Create(t.Context(), first))
	first.Status.Phase, first.Status.Queue = agentv1alpha1.RequestQueued, &brokerv1alpha1.QueuePlace{Position: 1}
	runtest.Check(t, b.client.Status().Update(t.Context(), first))
	b.broker.Decide = func(string, *v1.ReservationRequest) (*v1.Reservation, error) {
		return &v1.Reservation{
			Name: "res-0000000001", Phase: v1.ReservationPhaseQueued, RenewSeconds: 60,
			Queue: &v1.QueuePlace{Position: 1, Reason: v1.QueuePlaceReasonNoCandidate, RemainingSeconds: 60},
		}, nil
	}
	b.after(0)
	select {
	case e := <-b.news:
		if want := (types.NamespacedName{Namespace: "team", Name: "first"}); e.Object != want {
			t.Errorf("asks about %s, want %s", e.Object, want)
		}
	default:
		t.Error("two requests show place 1")
	}
	b.after(time.Second)
	if len(b.news) > 0 {
		t.Errorf("asks again about %v, and nothing changed", client.ObjectKeyFromObject(first))
	}
}

func TestLeaseShowsUntilWhenItMustBeRenewed(t *testing.T) {
	b := newBench(t)
	left := 3600.0
	b.broker.Decide = func(name string, req *v1.ReservationRequest) (*v1.Reservation, error) {
		r, err := transporttest.Grant(name, req)
		r.LeaseSeconds = &left
		return r, err
	}
	b.after(0)
	if by, want := b.request().Status.RenewBy, b.clock.Now().Add(time.Hour); by == nil || by.Sub(want).Abs() > time.Second {
		t.Errorf("renewed by %v, want %v", by, want)
	}
	b.delete()
	b.after(time.Second)
	for _, inst := range b.instructions() {
		inst.Finalizers = nil
		b.write(b.client.Update(b.Context(), &inst))
		b.write(client.IgnoreNotFound(b.client.Delete(b.Context(), &inst)))
	}
}
