package reservation

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestRequirementsSurviveTheRoundTripThroughTheBook(t *testing.T) {
	written := brokerv1alpha1.Requirements{
		Group: "training",
		Constraints: &brokerv1alpha1.Constraints{
			Regions: []string{"eu-south"}, Zones: []string{"eu-south-1"},
			ClusterSelector: &brokerv1alpha1.ClusterSelector{
				MatchLabels:      map[string]brokerv1alpha1.LabelValue{"tier": "gold"},
				MatchExpressions: []brokerv1alpha1.LabelExpression{{Key: "tier", Operator: "NotIn", Values: []string{"bronze"}}},
			},
			IncludeClusters: []string{"paris", "oslo"}, ExcludeClusters: []string{"berlin"},
			NodeSelector: map[string]brokerv1alpha1.LabelValue{"nvidia.com/gpu.product": "A100"},
			Affinity:     []string{"data"}, AntiAffinity: []string{"training"}, DataLocality: "genomes",
			MaxPrice:       &brokerv1alpha1.Money{Amount: "2.00", Currency: "EUR"},
			RequiredClaims: map[string]brokerv1alpha1.LabelValue{"availability": ">=99.5", "gdpr": "true"},
		},
		PodShapes: []brokerv1alpha1.PodShape{{Count: 4, Resources: brokerv1alpha1.PodResources{"cpu": resource.MustParse("4")}}},
		Data:      &brokerv1alpha1.DataVolume{Volume: resource.MustParse("500Gi"), Region: "eu-south"},
	}
	q, err := specs.ReadRequest(&brokerv1alpha1.Reservation{Spec: brokerv1alpha1.ReservationSpec{Requirements: written}})
	runtest.Check(t, err)
	shown := specOf(&views.Reservation{Reservation: ledger.Reservation{Reserve: ledger.Reserve{Request: q.Request}}}).Requirements
	if diff := cmp.Diff(written, shown); diff != "" {
		t.Errorf("requirements (-written +shown):\n%s", diff)
	}
}

func TestClaimComparedWithAWordIsRefused(t *testing.T) {
	_, err := specs.ReadRequest(&brokerv1alpha1.Reservation{Spec: brokerv1alpha1.ReservationSpec{Requirements: brokerv1alpha1.Requirements{
		Constraints: &brokerv1alpha1.Constraints{RequiredClaims: map[string]brokerv1alpha1.LabelValue{"sla": ">=gold"}},
	}}})
	if err == nil {
		t.Error("a claim compared with a word is accepted")
	}
}
