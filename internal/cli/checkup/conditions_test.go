package checkup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func TestConditionsArePrintedWithRemedies(t *testing.T) {
	for name, tc := range map[string]struct {
		status metav1.ConditionStatus
		reason string
		want   Finding
	}{
		"all is well":                    {metav1.ConditionTrue, "Published", Found("Published: why")},
		"a warning":                      {metav1.ConditionFalse, "PolicyMissing", Warn("helm upgrade restores it", "PolicyMissing: why")},
		"a failure":                      {metav1.ConditionFalse, "LiqoNotRunning", Fail("look at its pods and their events", "LiqoNotRunning: why")},
		"unknown, and nothing to do":     {metav1.ConditionUnknown, "LiqoHidden", Found("LiqoHidden: why")},
		"a reason of another version":    {metav1.ConditionFalse, "Novel", Fail("", "Novel: why")},
		"a good one of another version":  {metav1.ConditionTrue, "Novel", Found("Novel: why")},
		"a reason of another object":     {metav1.ConditionFalse, "NoCandidate", Fail("", "NoCandidate: why")},
		"a remedy with a link in a page": {metav1.ConditionTrue, "CertificateRenewalFailing", Warn("see certificates", "CertificateRenewalFailing: why")},
	} {
		t.Run(name, func(t *testing.T) {
			conditions := []metav1.Condition{{Type: "Ready", Status: tc.status, Reason: tc.reason, Message: "why"}}
			checks := Conditions(view.OfAdvertisement, conditions)
			if len(checks) != 1 || checks[0].Subject != "Ready" {
				t.Fatalf("checks %+v", checks)
			}
			if diff := cmp.Diff(tc.want, checks[0].Look(t.Context())); diff != "" {
				t.Errorf("finding (-want +got):\n%s", diff)
			}
		})
	}
}
