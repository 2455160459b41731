package app

import (
	"net/http"
	"strings"

	"golang.org/x/time/rate"
)

// The largest rate of events per second, and the largest burst. They equal a kubelet's limits
// (eventRecordQPS, eventBurst). When thousands of reservations change at once, these limits leave
// the API server free for their statuses.
const (
	eventRate  = 50
	eventBurst = 100
)

// withEventsLast limits the rate of the events that a client sends. It does not limit other
// requests.
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
