package providerinstruction

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// The notice period starts when the notice is first given.
func TestPlacementIsRecalled(t *testing.T) {
	type step struct {
		after   time.Duration
		recalls []agentv1alpha1.Recall
		release bool
		// ends is the deadline, measured from the first step; 0 if the placement is not
		// recalled.
		ends time.Duration
	}
	notice := func(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }
	rome := agentv1alpha1.Recall{Consumer: "rome", Message: "rack 4"}
	tests := map[string][]step{
		"with the default notice":     {{recalls: []agentv1alpha1.Recall{rome}, ends: 10 * time.Minute}},
		"as all are":                  {{recalls: []agentv1alpha1.Recall{{Consumer: "*", Message: "rack 4"}}, ends: 10 * time.Minute}},
		"by its reservation":          {{recalls: []agentv1alpha1.Recall{{Reservation: "res-a", Message: "rack 4", Notice: notice(time.Hour)}}, ends: time.Hour}},
		"not as another one is":       {{recalls: []agentv1alpha1.Recall{{Reservation: "res-b", Message: "rack 4"}, {Consumer: "milan"}}}},
		"once, however often it runs": {{recalls: []agentv1alpha1.Recall{rome}, ends: 10 * time.Minute}, {after: time.Minute, recalls: []agentv1alpha1.Recall{rome}, ends: 10 * time.Minute}},
		"with an edited notice": {
			{recalls: []agentv1alpha1.Recall{rome}, ends: 10 * time.Minute},
			{after: time.Minute, recalls: []agentv1alpha1.Recall{{Consumer: "rome", Message: "rack 4", Notice: notice(5 * time.Minute)}}, ends: 5 * time.Minute},
		},
		"and no more":               {{recalls: []agentv1alpha1.Recall{rome}, ends: 10 * time.Minute}, {after: time.Minute}},
		"and not once it is ending": {{recalls: []agentv1alpha1.Recall{rome}, ends: 10 * time.Minute}, {after: time.Minute, recalls: []agentv1alpha1.Recall{rome}, release: true}},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			policy := &agentv1alpha1.LendingPolicy{ObjectMeta: metav1.ObjectMeta{Name: agentv1alpha1.LendingPolicyName}}
			inst := newInstruction()
			inst.Finalizers, inst.Status.Enforced = []string{agentv1alpha1.PeeringFinalizer}, true
			b := &broker{}
			r := newReconciler(t, b, always(admission.Decision{Admitted: true}), policy, inst)
			now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
			r.opts.Clock = now
			for i, s := range steps {
				now.SetTime(now.Now().Add(s.after))
				policy.Spec.Recalls = s.recalls
				runtest.Check(t, r.client.Update(t.Context(), policy))
				got := &agentv1alpha1.ProviderInstruction{}
				runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), got))
				got.Spec.Release = s.release
				runtest.Check(t, r.client.Update(t.Context(), got))
				runtest.Check(t, r.recordRecall(t.Context(), got))
				runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), got))
				var want *agentv1alpha1.RecalledPlacement
				if s.ends != 0 {
					want = &agentv1alpha1.RecalledPlacement{
						Since: metav1.NewTime(time.Unix(1000, 0)), EndsAt: metav1.NewTime(time.Unix(1000, 0).Add(s.ends)), Message: "rack 4",
					}
				}
				if diff := cmp.Diff(want, got.Status.Recalled); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}
