package server

import "time"

// logAgain is the time after which the same refusal is logged again. Agents repeat refused requests every second.
// Metrics count the requests that are not logged.
const logAgain = time.Minute

// isRepeated reports whether the same refusal of caller was logged less than logAgain ago. If not, it notes that it is
// logged now. There must be few different refusals, because limits remembers each of them for each caller.
func (l *limits) isRepeated(caller, refusal string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clientOf(caller)
	if logged, known := c.refusals[refusal]; known && now.Sub(logged) < logAgain {
		return true
	}
	if c.refusals == nil {
		c.refusals = map[string]time.Time{}
	}
	c.refusals[refusal] = now
	return false
}
