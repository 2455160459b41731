package broker

import (
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// What was granted by an earlier version is renewed with the same digest.
func TestDigestsOutliveAnUpgrade(t *testing.T) {
	tests := map[string]struct {
		request Request
		want    string
	}{
		"the least": {
			Request{Requester: "rome", Key: "key-1", Amounts: quantity.Amounts{"cpu": 500}},
			"935b3a112df66210aacb9af1d9dac334",
		},
		"what the first version knew": {
			Request{
				Requester: "rome", Key: "key-2", Tenant: "blue", Priority: 7, Target: "paris", Duration: time.Hour,
				Amounts: quantity.Amounts{"cpu": 500, "memory": 256 << 20, "nvidia.com/gpu": 1},
			},
			"bb8786c08cb06b72286b03c82a6b7d2d",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tc.request.digest(); got != tc.want {
				t.Errorf("digest %s, want %s: running requests would be refused when they are renewed", got, tc.want)
			}
		})
	}
}

// A request that is changed is told from another one by the digest of what it became.
func TestWhatWasAskedForHasTheSameDigest(t *testing.T) {
	q := Request{
		Requester: "rome", Key: "key-2", Tenant: "blue", Priority: 7, Target: "paris", Duration: time.Hour,
		Amounts: quantity.Amounts{"cpu": 500}, Patient: true,
		Terms: terms.Terms{Group: "web", Constraints: &terms.Constraints{Regions: []string{"eu"}}, Data: &terms.Data{Bytes: 1}},
	}
	r := &ledger.Reservation{Reserve: ledger.Reserve{
		Requester: q.Requester, Key: q.Key, Tenant: q.Tenant, Priority: q.Priority, Target: q.Target,
		Duration: q.Duration, Amounts: q.Amounts, Patient: q.Patient, Terms: q.Terms.OrNil(),
	}}
	if got, want := requestOf(r).digest(), q.digest(); got != want {
		t.Errorf("digest %s of what was asked for, want %s", got, want)
	}
}
