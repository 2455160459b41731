package identity

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
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

// Condition returns the condition CertificateValid, which describes the certificate c. invalid is
// the reason why there is no valid certificate, or nil. trouble is the reason why the certificate
// could not be replaced, or nil. The message changes only if the certificate or one of these errors
// changes.
func Condition(c *pki.Credentials, invalid, trouble error, now time.Time) metav1.Condition {
	condition := metav1.Condition{Type: agentv1alpha1.ConditionCertificateValid, Status: metav1.ConditionTrue}
	if invalid != nil {
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, agentv1alpha1.ReasonCertificateInvalid, invalid.Error()
		if trouble != nil {
			condition.Message += ": " + trouble.Error()
		}
		return condition
	}
	leaf := c.Certificate.Leaf
	expires := leaf.NotAfter.UTC().Format(time.RFC3339)
	life := leaf.NotAfter.Sub(leaf.NotBefore)
	switch {
	case trouble != nil:
		condition.Reason = agentv1alpha1.ReasonRenewalFailing
		condition.Message = fmt.Sprintf("valid until %s, but renewal fails: %v", expires, trouble)
	// The certificate expires soon. An automatic renewal begins after two thirds of the lifetime and
	// would have finished by now.
	case now.After(leaf.NotAfter.Add(-life / 6)):
		condition.Reason = agentv1alpha1.ReasonCertificateExpiring
		condition.Message = fmt.Sprintf("valid until %s and not renewed yet: replace the files in --broker-cert-path", expires)
	default:
		condition.Reason = agentv1alpha1.ReasonCertificateValid
		condition.Message = fmt.Sprintf("valid until %s", expires)
	}
	return condition
}

// firstPause is the pause after the first failed attempt. The pause doubles with each failure, up
// to longestPause.
const (
	firstPause   = time.Second
	longestPause = 5 * time.Minute
)

// backoff computes the pauses between attempts that fail.
type backoff struct {
	failures int
	// until is the earliest time for the next attempt.
	until time.Time
}

// nextAfterFailure returns when to try again. A longer pause that the broker asks for with
// Retry-After is respected up to longestPause.
func (b *backoff) nextAfterFailure(now time.Time, err error) time.Time {
	pause := min(firstPause<<min(b.failures, 16), longestPause)
	if f, ok := errors.AsType[*fault.Error](err); ok {
		pause = max(pause, min(f.RetryAfter, longestPause))
	}
	b.failures++
	return b.delayNext(now, pause)
}

// delayNext sets the next attempt to now plus pause, which is at least firstPause, with up to 20 %
// added at random.
func (b *backoff) delayNext(now time.Time, pause time.Duration) time.Time {
	b.until = now.Add(wait.Jitter(max(pause, firstPause), 0.2))
	return b.until
}
