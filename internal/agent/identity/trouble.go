package identity

import (
	"time"
)

// reminder is how often an unchanged problem is logged.
const reminder = 10 * time.Minute

// Trouble returns why there is no certificate, or why it is not renewed; nil if all is well.
func (k *Keeper) Trouble() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trouble
}

// clearTrouble forgets problems after a success.
func (k *Keeper) clearTrouble() {
	k.backoff = backoff{}
	k.told = reminded{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trouble = nil
}

// reportTrouble publishes a problem, and logs it when it is new and then every reminder.
func (k *Keeper) reportTrouble(err error) {
	k.mu.Lock()
	k.trouble = err
	k.mu.Unlock()
	if k.told.isDue(err.Error(), k.clock.Now()) {
		k.log.Info("not enrolled or renewed yet", "cause", err.Error())
	}
}

// reminded is the last logged text, and when it was logged.
type reminded struct {
	text string
	at   time.Time
}

// isDue reports whether text should be logged now, and remembers it.
func (r *reminded) isDue(text string, now time.Time) bool {
	if r.text == text && now.Before(r.at.Add(reminder)) {
		return false
	}
	r.text, r.at = text, now
	return true
}
