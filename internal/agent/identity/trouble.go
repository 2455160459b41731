package identity

import (
	"time"
)

// reminder is how often an unchanged problem is logged.
const reminder = 10 * time.Minute

// Trouble returns why there is no certificate or why it could not be renewed, or nil if all is
// well.
func (k *Keeper) Trouble() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trouble
}

// clearTrouble removes the problem and resets the backoff, once nothing is left to do.
func (k *Keeper) clearTrouble() {
	k.backoff = backoff{}
	k.told = reminded{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trouble = nil
}

// reportTrouble makes Trouble return the error. It logs an error that is new, or that was last
// logged at least one reminder interval ago.
func (k *Keeper) reportTrouble(err error) {
	k.mu.Lock()
	k.trouble = err
	k.mu.Unlock()
	if k.told.isDue(err.Error(), k.clock.Now()) {
		k.log.Info("not enrolled or renewed yet", "cause", err.Error())
	}
}

// reminded remembers the text that was last logged, and when.
type reminded struct {
	text string
	at   time.Time
}

// isDue reports whether text should be logged now. If so, it remembers the text.
func (r *reminded) isDue(text string, now time.Time) bool {
	if r.text == text && now.Before(r.at.Add(reminder)) {
		return false
	}
	r.text, r.at = text, now
	return true
}
