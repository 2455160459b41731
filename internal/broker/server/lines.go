package server

import (
	"time"

	"golang.org/x/time/rate"
)

// Limits of the log lines for one caller's requests. Metrics count the requests that are not logged.
const (
	logRate rate.Limit = 10

	logBurst = 300

	// logAgain is the time after which the same refusal is logged again. Agents repeat refused requests every second.
	logAgain = time.Minute
)

// mayLog reports whether a request of caller may be logged. If so, suppressed is how many of the caller's requests
// were not logged since its last line. refusal says what was refused and why; it is empty if the request was not
// refused. There must be few different refusals, because limits remembers each of them for each caller.
func (l *limits) mayLog(caller, refusal string, now time.Time) (suppressed int, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clientOf(caller, now)
	if logged, repeated := c.refusals[refusal]; repeated && now.Sub(logged) < logAgain || !c.lines.AllowN(now, 1) {
		c.suppressed++
		return 0, false
	}
	if refusal != "" {
		if c.refusals == nil {
			c.refusals = map[string]time.Time{}
		}
		c.refusals[refusal] = now
	}
	suppressed, c.suppressed = c.suppressed, 0
	return suppressed, true
}
