package broker

import (
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// A changed request has the digest of its new content.
func TestEqualRequestsHaveTheSameDigest(t *testing.T) {
	q := Request{
		Requester: "rome", Key: "key-2", Tenant: "blue", Priority: 7, Target: "paris", Duration: time.Hour,
		Amounts: quantity.Amounts{"cpu": 500}, Patient: true,
		Terms: terms.Terms{Group: "web", Constraints: &terms.Constraints{Regions: []string{"eu"}}, Data: &terms.Data{Bytes: 1}},
	}
	r := &ledger.Reservation{Reserve: ledger.Reserve{
		Requester: q.Requester, Key: q.Key, Tenant: q.Tenant, Priority: q.Priority, Target: q.Target,
		Duration: q.Duration, Amounts: q.Amounts, Patient: q.Patient, Terms: q.Terms.OrNil(),
	}}
	if got, want := requestOf(r).digestFields(), q.digestFields(); got != want {
		t.Errorf("digest %s of what was asked for, want %s", got, want)
	}
}
