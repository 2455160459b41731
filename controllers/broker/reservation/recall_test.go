package reservation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

func TestStatusShowsARecall(t *testing.T) {
	paris, berlin := ledger.Placement{Number: 1, Provider: "paris"}, ledger.Placement{Number: 2, Provider: "berlin"}
	left := paris
	left.Withdrawn = ledger.Recalled
	told := []metav1.Condition{{Type: brokerv1alpha1.ConditionRecalled, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonRecallNotice}}
	tests := map[string]struct {
		phase      ledger.Phase
		recall     string
		placements []ledger.Placement
		before     []metav1.Condition
		want       string
	}{
		"never":                 {ledger.Active, "", []ledger.Placement{paris}, nil, ""},
		"with notice":           {ledger.Active, "paris calls it back", []ledger.Placement{paris}, nil, "True RecallNotice"},
		"while another comes":   {ledger.Active, "paris calls it back", []ledger.Placement{paris, berlin}, told, "True RecallNotice"},
		"once another serves":   {ledger.Active, "", []ledger.Placement{left, berlin}, told, "False Migrated"},
		"once it is withdrawn":  {ledger.Active, "", []ledger.Placement{paris}, told, "False NoticeWithdrawn"},
		"while it waits":        {ledger.Queued, "", []ledger.Placement{left}, told, "True Recalled"},
		"when it failed for it": {ledger.Failed, "", []ledger.Placement{left}, told, "True Recalled"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			view := &views.Reservation{Phase: test.phase, Recall: test.recall}
			view.Placements = test.placements
			got := ""
			for _, c := range recallConditions(view, test.before) {
				got = string(c.Status) + " " + c.Reason
			}
			if got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}
