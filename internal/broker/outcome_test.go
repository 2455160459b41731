package broker

import (
	"context"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// A refusal claims that nothing was changed only if that is certain.
func TestRefusalClaimsOnlyKnownFacts(t *testing.T) {
	tests := map[string]struct {
		happens journaltest.Fault
		want    string
	}{
		"nobody can be connected to":         {journaltest.Refused, "nothing was changed"},
		"answers of the API server stay out": {journaltest.Unanswered, "repeat the call to learn"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi")
				f.store.Inject(func(journaltest.Call) journaltest.Fault { return test.happens })
				_, err := f.RequestReservation(context.Background(), "rome", "request-1", request("2", "4Gi"))
				if fault.ReasonOf(err) != fault.Unavailable || !strings.Contains(err.Error(), test.want) {
					t.Errorf("got %v, want it to say %q", err, test.want)
				}
				f.store.Inject(nil)
			})
		})
	}
}
