package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// nowhere is a transport that sends nothing, and returns at once without a response and without
// an error.
type nowhere struct{}

func (nowhere) RoundTrip(*http.Request) (*http.Response, error) { return nil, nil }

func TestOnlyEventsAreRateLimited(t *testing.T) {
	for path, want := range map[string]time.Duration{
		"/apis/events.k8s.io/v1/namespaces/default/events":                            2 * time.Second,
		"/apis/broker.fluidos.eu/v1alpha1/namespaces/default/reservations/one/status": 0,
	} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client, began := withEventsLast(nowhere{}), time.Now()
				for range eventBurst + 2*eventRate {
					response, err := client.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody))
					if err != nil {
						t.Fatal(err)
					}
					if response != nil {
						_ = response.Body.Close()
					}
				}
				if took := time.Since(began); took.Round(time.Millisecond) != want {
					t.Errorf("took %s, want %s", took, want)
				}
			})
		})
	}
}
