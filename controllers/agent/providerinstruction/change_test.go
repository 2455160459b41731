package providerinstruction

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func cpus(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

// heard returns the next report to the broker.
func (b *broker) heard(t *testing.T, r *Reconciler) v1.StatusReport {
	t.Helper()
	select {
	case <-r.queue.Due():
		return <-b.told
	case <-time.After(waitLimit):
		t.Fatal("the broker was not told")
		return v1.StatusReport{}
	}
}

// Each case reconciles twice after the change, the second time like a restarted agent: that reports
// the same answer again, and does not ask for admission again.
func TestChangeOfAmountsIsDecidedOnceAndAnswered(t *testing.T) {
	tests := map[string]struct {
		wanted    string
		admission admission.Decision
		asked     int
		state     v1.StatusReportState
		kept      string
	}{
		"more, admitted": {"6", admission.Decision{Admitted: true}, 1, v1.StatusReportStateAcknowledged, "6"},
		"more, refused":  {"6", admission.Decision{Reason: agentv1alpha1.ReasonInsufficient, Message: "1 of cpu is free here"}, 1, v1.StatusReportStateRefused, "4"},
		"less":           {"1", admission.Decision{}, 0, v1.StatusReportStateAcknowledged, "1"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			inst, b, asked := newInstruction(), &broker{}, 0
			inst.Spec.Resources = cpus("4")
			r := newReconciler(t, b, always(admission.Decision{Admitted: true}), inst)
			inst, _ = settled(t, r, b)
			r.opts.Admit = func(context.Context, *agentv1alpha1.ProviderInstruction) (admission.Decision, error) {
				asked++
				return tc.admission, nil
			}
			inst.Spec.Resources, inst.Spec.Change = cpus(tc.wanted), 2
			runtest.Check(t, r.client.Update(t.Context(), inst))
			for range 2 {
				r.reports.Forget("res-a", 1)
				runtest.Check(t, step(t, r))
				if got := b.heard(t, r); got.State != tc.state || got.Change != 2 {
					t.Errorf("told %+v, want %s of change 2", got, tc.state)
				}
			}
			got := &agentv1alpha1.ProviderInstruction{}
			runtest.Check(t, r.client.Get(t.Context(), client.ObjectKeyFromObject(inst), got))
			keeps := got.Kept()
			if kept := keeps.Cpu().String(); kept != tc.kept || !got.Status.Enforced || asked != tc.asked {
				t.Errorf("keeps %s, enforced %v, asked %d times for admission; want %s, true, %d", kept, got.Status.Enforced, asked, tc.kept, tc.asked)
			}
		})
	}
}

// The provider agrees to a reduction once the consumer's grant is no larger.
func TestReductionIsConfirmedOnceTheGrantIsSmaller(t *testing.T) {
	inst, b := newInstruction(), &broker{}
	inst.Spec.Resources = cpus("4")
	r := newReconciler(t, b, always(admission.Decision{Admitted: true}), inst)
	inst, _ = settled(t, r, b)
	inst.Spec.Resources, inst.Spec.Change = cpus("1"), 2
	recordChange(inst, admission.Decision{Admitted: true}, r.now())
	r.reports.Forget("res-a", 1)
	r.reportChange(inst, plan.ProviderState{Exceeds: true})
	if r.reports.IsReceived("res-a", 1, v1.StatusReportStateAcknowledged) || len(b.told) > 0 {
		t.Error("the broker was told while the consumer has more")
	}
	r.reportChange(inst, plan.ProviderState{})
	if got := b.heard(t, r); got.State != v1.StatusReportStateAcknowledged || got.Change != 2 {
		t.Errorf("told %+v", got)
	}
}
