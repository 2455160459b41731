package providerinstruction

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// reported returns the next report of excess.
func (b *broker) reported(t *testing.T) v1.Excess {
	t.Helper()
	for {
		select {
		case report := <-b.told:
			if report.Excess != nil {
				if report.State != v1.StatusReportStateAcknowledged || report.Role != v1.StatusReportRoleProvider {
					t.Errorf("excess is told in a report of %s by a %s", report.State, report.Role)
				}
				return *report.Excess
			}
		case <-time.After(waitLimit):
			t.Fatal("the broker was not told of the excess")
		}
	}
}

func TestExcessIsShownAndReported(t *testing.T) {
	b := &broker{}
	r := newReconciler(t, b, always(admission.Decision{Admitted: true}), newInstruction())
	inst, _ := settled(t, r, b)
	show := func(excess *agentv1alpha1.GrantExcess) *metav1.Condition {
		t.Helper()
		inst.Status.Excess = excess
		runtest.Check(t, r.client.Status().Update(t.Context(), inst))
		runtest.Check(t, step(t, r))
		runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
		return meta.FindStatusCondition(inst.Status.Conditions, agentv1alpha1.ConditionWithinGrant)
	}
	if c := show(nil); c != nil {
		t.Errorf("a consumer that never exceeded its grant has condition %+v", c)
	}
	now := metav1.NewTime(time.Unix(1000, 0))
	c := show(&agentv1alpha1.GrantExcess{Resources: cpus("250m"), Largest: cpus("250m"), LastSeen: now, Cordoned: true})
	if c == nil || c.Status != metav1.ConditionFalse || c.Reason != agentv1alpha1.ReasonExceedsGrant || !strings.Contains(c.Message, `pods of "rome" exceed the grant by 250m of cpu`) {
		t.Errorf("condition %+v", c)
	}
	if diff := cmp.Diff(v1.Excess{Resources: v1.Amounts{"cpu": "250m"}}, b.reported(t)); diff != "" {
		t.Errorf("the broker is told at once (-want +got):\n%s", diff)
	}
	c = show(&agentv1alpha1.GrantExcess{Largest: cpus("300m"), EvictedPods: 2, LastSeen: now})
	if c == nil || c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "by up to 300m of cpu, and 2 were evicted") {
		t.Errorf("condition %+v", c)
	}
	if diff := cmp.Diff(v1.Excess{Pods: 2, Resources: v1.Amounts{"cpu": "300m"}}, b.reported(t)); diff != "" {
		t.Errorf("and at the end (-want +got):\n%s", diff)
	}
}

func TestReductionKeepsEarlierGrant(t *testing.T) {
	with := func(list corev1.ResourceList, name corev1.ResourceName, amount string) corev1.ResourceList {
		list[name] = cpus(amount)[corev1.ResourceCPU]
		return list
	}
	for name, tc := range map[string]struct {
		kept, wanted, earlier, want corev1.ResourceList
	}{
		"more":                     {kept: cpus("1"), wanted: cpus("2")},
		"less":                     {kept: cpus("2"), wanted: cpus("1"), want: cpus("2")},
		"a resource less":          {kept: with(cpus("1"), "nvidia.com/gpu", "1"), wanted: cpus("2"), want: with(cpus("1"), "nvidia.com/gpu", "1")},
		"less, and less once more": {kept: cpus("2"), wanted: cpus("1"), earlier: cpus("4"), want: cpus("4")},
	} {
		t.Run(name, func(t *testing.T) {
			inst := newInstruction()
			inst.Spec.Resources, inst.Status.Granted = tc.wanted, tc.kept
			if tc.earlier != nil {
				inst.Status.Reduced = &agentv1alpha1.ReducedGrant{Resources: tc.earlier}
			}
			now := metav1.NewTime(time.Unix(1000, 0))
			recordChange(inst, admission.Decision{Admitted: true}, now.Time)
			var want *agentv1alpha1.ReducedGrant
			if tc.want != nil {
				want = &agentv1alpha1.ReducedGrant{Resources: tc.want, At: now}
			}
			if diff := cmp.Diff(want, inst.Status.Reduced); diff != "" {
				t.Errorf("reduced (-want +got):\n%s", diff)
			}
		})
	}
}
