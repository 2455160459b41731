package broker

import (
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
				f.wantRefusal("rome", "request-1", request("2", "4Gi"), fault.Unavailable, test.want)
				f.store.Inject(nil)
			})
		})
	}
}
