package resourcerequest

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

func TestRecallConditions(t *testing.T) {
	const none = ""
	on := func(target string, reason string) *agentv1alpha1.ReservationInstruction {
		inst := &agentv1alpha1.ReservationInstruction{}
		inst.Spec.TargetClusterID = target
		if reason != none {
			inst.Spec.Notice = &agentv1alpha1.Notice{Reason: reason, Message: "it has to go"}
		}
		return inst
	}
	recalled, preempted := string(v1.NoticeReasonRecalled), string(v1.NoticeReasonPreempted)
	type shown struct{ recalled, preempted string }
	tests := map[string]struct {
		instructions []*agentv1alpha1.ReservationInstruction
		want         shown
	}{
		"nothing where nobody says anything": {[]*agentv1alpha1.ReservationInstruction{on("paris", none)}, shown{}},
		"the notice":                         {[]*agentv1alpha1.ReservationInstruction{on("paris", recalled)}, shown{"True RecallNotice", ""}},
		"that another one serves":            {[]*agentv1alpha1.ReservationInstruction{on("paris", recalled), on("berlin", none)}, shown{"False Migrated", ""}},
		"that it is withdrawn":               {[]*agentv1alpha1.ReservationInstruction{on("paris", recalled), on("paris", none)}, shown{"False NoticeWithdrawn", ""}},
		"that another one serves a victim":   {[]*agentv1alpha1.ReservationInstruction{on("paris", preempted), on("berlin", none)}, shown{"", "False Migrated"}},
		"that it has to make room after all": {[]*agentv1alpha1.ReservationInstruction{on("paris", recalled), on("paris", preempted)}, shown{"False NoticeWithdrawn", "True PreemptionNotice"}},
		"that it is called back before that": {[]*agentv1alpha1.ReservationInstruction{on("paris", preempted), on("paris", recalled)}, shown{"True RecallNotice", "False NoticeWithdrawn"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			e := editor{rr: &agentv1alpha1.ResourceRequest{}, now: time.Unix(1000, 0)}
			for _, inst := range test.instructions {
				e.setNotice(inst)
				e.rr.Status.TargetClusterID = inst.Spec.TargetClusterID
			}
			tell := func(kind string) string {
				if c := meta.FindStatusCondition(e.rr.Status.Conditions, kind); c != nil {
					return string(c.Status) + " " + c.Reason
				}
				return ""
			}
			if got := (shown{tell(agentv1alpha1.ConditionRecalled), tell(agentv1alpha1.ConditionPreempted)}); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

func TestQueuedRequestShowsRecall(t *testing.T) {
	e := editor{rr: &agentv1alpha1.ResourceRequest{}, now: time.Unix(1000, 0)}
	e.setCondition(agentv1alpha1.ConditionRecalled, metav1.ConditionTrue, agentv1alpha1.ReasonRecallNotice, "it has to go")
	e.setQueued(&v1.QueuePlace{Position: 1, Since: e.now, RemainingSeconds: 60, Reason: v1.QueuePlaceReasonNoCandidate})
	if c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionRecalled); c.Reason != agentv1alpha1.ReasonRecalled || c.Status != metav1.ConditionTrue {
		t.Errorf("%+v", c)
	}
}
