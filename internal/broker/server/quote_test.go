package server

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
)

func TestQuotesReachTheBrokerAsTheCallersOwn(t *testing.T) {
	b := transporttest.NewBroker()
	s := newSite(t, b)
	client := s.client(t, "rome")
	if r := s.send(t, client, post, "/api/v1/quotes", `{"resources":{"cpu":"1"}}`, "Idempotency-Key", key); r.StatusCode != http.StatusOK {
		t.Fatalf("got %s: %s", r.Status, r.body)
	}
	if r := s.send(t, client, http.MethodDelete, "/api/v1/quotes/"+key, ""); r.StatusCode != http.StatusNoContent {
		t.Fatalf("got %s: %s", r.Status, r.body)
	}
	for operation, want := range map[transporttest.Operation]transporttest.Call{
		transporttest.RequestQuote: {
			Operation: transporttest.RequestQuote, ClusterID: "rome", Name: key,
			Body: &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "1"}},
		},
		transporttest.ReleaseQuote: {Operation: transporttest.ReleaseQuote, ClusterID: "rome", Name: key},
	} {
		if diff := cmp.Diff([]transporttest.Call{want}, b.Calls(operation)); diff != "" {
			t.Errorf("calls of %s (-want +got):\n%s", operation, diff)
		}
	}
}
