package reservation

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

func TestStatusShowsAnIdleReservation(t *testing.T) {
	told := []metav1.Condition{{Type: brokerv1alpha1.ConditionIdle, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonIdle}}
	tests := map[string]struct {
		idle   bool
		end    ledger.EndReason
		before []metav1.Condition
		want   string
	}{
		"never":                      {want: ""},
		"while it is":                {idle: true, want: "True Idle"},
		"when it is used again":      {before: told, want: "False InUse"},
		"when it was released so":    {end: ledger.EndIdle, before: told, want: "True Idle"},
		"when it ended otherwise":    {end: ledger.EndExpired, before: told, want: "False Released"},
		"when it ended and was used": {end: ledger.EndExpired, want: ""},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			view := &views.Reservation{}
			view.EndReason = c.end
			if c.idle {
				view.History = &ledger.History{IdleTime: &ledger.IdleTime{Placement: 1}}
			}
			got := ""
			for _, condition := range idleConditions(view, c.before) {
				got = string(condition.Status) + " " + condition.Reason
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
