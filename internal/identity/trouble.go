package identity

import (
	"time"
)

// reminder is how often a trouble that stays the same is logged.
const reminder = 10 * time.Minute

// Trouble says why there is no certificate, or why it is not renewed; nil if all is
// well.
func (k *Keeper) Trouble() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.trouble
}

// recovered forgets troubles.
func (k *Keeper) recovered() {
	k.backoff = backoff{}
	k.told = reminded{}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.trouble = nil
}

// note shows a trouble, and logs it when it is new and now and then.
func (k *Keeper) note(err error) {
	k.mu.Lock()
	k.trouble = err
	k.mu.Unlock()
	if k.told.again(err.Error(), k.clock.Now()) {
		k.log.Info("Not enrolled, or not renewed, yet", "cause", err.Error())
	}
}

// reminded is what was said last, and when.
type reminded struct {
	text string
	at   time.Time
}

// again says whether text is worth saying now.
func (r *reminded) again(text string, now time.Time) bool {
	if r.text == text && now.Before(r.at.Add(reminder)) {
		return false
	}
	r.text, r.at = text, now
	return true
}
