package server

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
)

// TestVouchedRequestIsHandledLikeAnyOther sends requests of a cluster for which the caller of
// Answer vouches, instead of a certificate.
func TestVouchedRequestIsHandledLikeAnyOther(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	ask := func(method, path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		s.Answer(answer, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody), "rome")
		return answer
	}
	if got := ask(http.MethodDelete, "/api/v1/reservations/"+key); got.Code != http.StatusNoContent {
		t.Errorf("release: %d %s", got.Code, got.Body)
	}
	calls := s.broker.Calls(transporttest.ReleaseReservation)
	if len(calls) != 1 || calls[0].ClusterID != "rome" || calls[0].Name != key {
		t.Errorf("calls %+v; want one of rome", calls)
	}
	if got := ask(http.MethodGet, "/api/v1/instructions?wait=never"); got.Code != http.StatusBadRequest {
		t.Errorf("an invalid parameter: %d %s", got.Code, got.Body)
	}
	if got := ask(http.MethodGet, "/elsewhere"); got.Code != http.StatusNotFound {
		t.Errorf("an unknown path: %d %s", got.Code, got.Body)
	}
}

// breaking panics once its answer has begun.
type breaking struct{ http.ResponseWriter }

func (b breaking) Write(text []byte) (int, error) {
	if _, err := b.ResponseWriter.Write(text[:1]); err != nil {
		return 0, err
	}
	panic("disk full")
}

// TestBrokenVouchedAnswerAffectsOnlyItsRequest checks that a panic while an answer is written ends
// only the request.
func TestBrokenVouchedAnswerAffectsOnlyItsRequest(t *testing.T) {
	s := newSite(t, transporttest.NewBroker())
	answer := httptest.NewRecorder()
	s.Answer(breaking{answer}, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/v1/ping", http.NoBody), "rome")
	if answer.Body.Len() != 1 {
		t.Errorf("answer %q, want it cut off", answer.Body)
	}
}
