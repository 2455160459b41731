package liqo

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// A consumer that never returns leaves all its objects in place. The provider gets its capacity
// back after the deadline, but not before the pods have ended.
func TestProviderReclaimsCapacityOfALostConsumer(t *testing.T) {
	for name, lost := range map[string]func(*site){
		"its agent is gone, and its Liqo keeps everything alive": func(s *site) { s.silent = true },
		"its cluster is gone": func(s *site) { s.silent, s.cut = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				w.runPod("paris", "res-a-1")
				lost(w.sites["rome"])
				w.setRelease("rome", "paris", "res-a", false)
				began := time.Now()
				w.until("the instruction is gone", nil, func() bool { return w.provides("paris", "res-a-1") == nil })
				if took := time.Since(began); took < reclaimAfter+podGrace-2*time.Second { // timestamps have whole seconds
					t.Errorf("confirmed after %v, while the pod still ran", took)
				}
				w.wantNothingAt("paris")

				// When the consumer is back, it cleans up the rest.
				w.sites["rome"].silent, w.sites["rome"].cut = false, false
				w.until("the consumer is clean too", nil, func() bool { return !w.anyInstruction() })
				w.wantEmpty()
			})
		})
	}
}

func TestConsumerReturnsAfterReclaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, name := range []string{"res-a", "res-b"} {
			w.reserve("rome", "paris", name)
			w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", name+"-1") })
			w.runPod("paris", name+"-1")
		}
		w.sites["rome"].silent = true
		w.setRelease("rome", "paris", "res-a", false)
		w.until("one is reclaimed", nil, func() bool { return w.provides("paris", "res-a-1") == nil })
		if !w.exists("paris", "demo-rome", "pod-of-res-b-1", &corev1.Pod{}) || !w.mayReplicate("paris", "rome") {
			t.Error("the other one lost its pod or its rights")
		}
		var replica authv1beta1.ResourceSlice
		w.run(5 * time.Second)
		if w.exists("paris", object.TenantNamespaceName("rome"), "res-a-1", &replica) && replicaView(&replica).Granted {
			t.Error("what was reclaimed is granted again")
		}
		w.setRelease("rome", "paris", "res-b", false)
		w.until("nothing runs any more", nil, func() bool {
			return !w.exists("paris", "demo-rome", "pod-of-res-b-1", &corev1.Pod{})
		})
		w.reserve("rome", "paris", "res-c")
		w.sites["rome"].silent = false
		w.until("a new one is served", nil, func() bool { return w.nodeReady("rome", "res-c-1") })
		w.release("rome", "paris", "res-c", nil)
		w.until("all instructions are gone", nil, func() bool { return !w.anyInstruction() })
		w.wantEmpty()
	})
}

// wantNothingAt fails if objects of a peering are left in a cluster.
func (w *world) wantNothingAt(id string) {
	w.t.Helper()
	for _, count := range []int{
		w.count(w.sites[id], &corev1.NamespaceList{}), w.count(w.sites[id], &authv1beta1.TenantList{}),
		w.count(w.sites[id], &authv1beta1.ResourceSliceList{}), w.count(w.sites[id], &offloadingv1beta1.QuotaList{}),
		w.count(w.sites[id], &offloadingv1beta1.ShadowPodList{}), w.count(w.sites[id], &agentv1alpha1.ProviderInstructionList{}),
	} {
		if count > 0 {
			w.t.Errorf("%s: %d objects of a kind are left", id, count)
		}
	}
}

// passing is a clock that advances with every reading.
type passing struct {
	clock.RealClock
	now time.Time
}

func (c *passing) Now() time.Time {
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

// The time that a consumer has to return a placement (ReclaimAfter) may run out while Provide runs.
// Provide must then be done, or say in Again when it must be called again.
func TestChecksContinueUntilTheConsumersTimeIsOver(t *testing.T) {
	w := newWorld(t)
	ended := metav1.NewTime(time.Now().Truncate(time.Second))
	inst := &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a-1"},
		Spec:       agentv1alpha1.ProviderInstructionSpec{ReservationName: "a", Placement: 1, RequesterClusterID: "rome", Release: true},
		Status:     agentv1alpha1.ProviderInstructionStatus{ReleasingSince: &ended},
	}
	w.check(w.sites["paris"].client.Create(t.Context(), inst))
	for before := range 10 {
		p := w.sites["paris"].peering
		p.opts.Clock = &passing{now: ended.Add(reclaimAfter - time.Duration(before)*time.Millisecond)}
		state, err := p.Provide(t.Context(), inst)
		w.check(err)
		if state.Again == 0 && !state.Done {
			t.Errorf("%d ms before its end nobody looks again", before)
		}
	}
}
