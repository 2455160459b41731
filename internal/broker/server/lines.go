package server

import (
	"time"

	"golang.org/x/time/rate"
)

// Limits of the log lines that one caller's requests may cause. Requests that are not
// logged are counted in the metrics all the same.
const (
	logRate rate.Limit = 10

	logBurst = 300
)

// mayLog reports whether a request of caller may have its line in the log, and how many
// before it had none.
func (l *limits) mayLog(caller string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.client(caller, now)
	if !c.lines.AllowN(now, 1) {
		c.suppressed++
		return 0, false
	}
	suppressed, c.suppressed = c.suppressed, 0
	return suppressed, true
}
