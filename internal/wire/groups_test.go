package wire

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func requestWith(namespace, group string, affinity, antiAffinity []string) *agentv1alpha1.ResourceRequest {
	rr := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
	rr.Spec.Group = group
	rr.Spec.Constraints = &brokerv1alpha1.Constraints{Affinity: affinity, AntiAffinity: antiAffinity}
	return rr
}

func TestGroupsOfANamespaceDoNotReachOtherNamespaces(t *testing.T) {
	for _, group := range []string{"training", "a", strings.Repeat("g", 63), strings.Repeat("g", 45) + ".-" + strings.Repeat("h", 16)} {
		rr := requestWith("red", group, []string{group, "other"}, []string{group})
		before := rr.DeepCopy()
		red := ReservationRequest(rr, "rome")
		again := ReservationRequest(requestWith("red", "", nil, []string{group}), "rome")
		blue := ReservationRequest(requestWith("blue", group, nil, nil), "rome")
		if diff := cmp.Diff(before, rr); diff != "" {
			t.Errorf("the request itself has changed (-before +after):\n%s", diff)
		}
		if red.Group != red.Constraints.Affinity[0] || red.Group != red.Constraints.AntiAffinity[0] || red.Group != again.Constraints.AntiAffinity[0] {
			t.Errorf("group %q of one namespace has several names: %q, %+v, %+v", group, red.Group, *red.Constraints, *again.Constraints)
		}
		if red.Group == blue.Group || red.Group == red.Constraints.Affinity[1] {
			t.Errorf("groups that differ have one name %q", red.Group)
		}
		if _, err := ToRequirements(red); err != nil {
			t.Errorf("the broker refuses group %q: %v", red.Group, err)
		}
	}
}

func TestRequestsWithoutGroupsAreSentAsTheyAre(t *testing.T) {
	rr := requestWith("red", "", nil, nil)
	rr.Spec.Constraints.Regions = []string{"eu"}
	if got := ReservationRequest(rr, "rome"); got.Group != "" || got.Constraints != rr.Spec.Constraints {
		t.Errorf("got %+v", got)
	}
}
