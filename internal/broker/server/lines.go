package server

import (
	"time"

	"golang.org/x/time/rate"
)

// Limits of the log lines for one caller's requests. Metrics count the requests that are not logged.
const (
	logRate rate.Limit = 10

	logBurst = 300
)

// mayLog reports whether a request of caller may be logged, and how many earlier requests were not.
func (l *limits) mayLog(caller string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clientOf(caller, now)
	if !c.lines.AllowN(now, 1) {
		c.suppressed++
		return 0, false
	}
	suppressed, c.suppressed = c.suppressed, 0
	return suppressed, true
}
