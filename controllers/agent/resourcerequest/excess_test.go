package resourcerequest

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

func TestRequestShowsExceededGrant(t *testing.T) {
	e := editor{rr: &agentv1alpha1.ResourceRequest{}, now: time.Now()}
	current := &agentv1alpha1.ReservationInstruction{Spec: agentv1alpha1.ReservationInstructionSpec{TargetClusterID: "paris"}}
	e.setExcess(current)
	if c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionWithinGrant); c != nil {
		t.Fatalf("without excess the request says %+v", c)
	}
	current.Spec.Excess = &agentv1alpha1.Excess{Pods: 3, Resources: corev1.ResourceList{"cpu": resource.MustParse("2")}}
	e.setExcess(current)
	c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionWithinGrant)
	if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, `"paris" evicted 3 pods that exceeded what was granted by 2 of cpu`) {
		t.Fatalf("with excess the request says %+v", c)
	}
	current.Spec.TargetClusterID, current.Spec.Excess = "berlin", nil
	e.setExcess(current)
	if c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionWithinGrant); c.Status != metav1.ConditionTrue {
		t.Errorf("with another provider the request says %+v", c)
	}
}
