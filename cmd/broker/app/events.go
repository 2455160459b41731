package app

import (
	"net/http"
	"strings"

	"golang.org/x/time/rate"
)

// Limits of events per second and per burst, equal to a kubelet's (eventRecordQPS, eventBurst).
// When thousands of reservations change together, their statuses come first.
const (
	eventRate  = 50
	eventBurst = 100
)

// withEventsLast rate-limits a client's events, but no other request.
func withEventsLast(next http.RoundTripper) http.RoundTripper {
	return eventsLast{next, rate.NewLimiter(eventRate, eventBurst)}
}

type eventsLast struct {
	http.RoundTripper
	limiter *rate.Limiter
}

func (e eventsLast) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasPrefix(r.URL.Path, "/apis/events.k8s.io/") {
		if err := e.limiter.Wait(r.Context()); err != nil {
			return nil, err
		}
	}
	return e.RoundTripper.RoundTrip(r)
}
