package identity

import (
	"context"
	"errors"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// pingInterval is how often the agent asks the broker which CA certificates the broker trusts (its
// roots).
const pingInterval = time.Minute

// pingBroker asks the broker which roots it trusts, and notes whether they differ from those of the
// certificate c, and whether the broker and this agent accept each other's certificates. Only the
// leader asks, at most once per pingInterval.
func (k *Keeper) pingBroker(ctx context.Context, c *Certificate) {
	now := k.clock.Now()
	if c == nil || !k.isLeading() || now.Before(k.pinged.Add(pingInterval)) {
		return
	}
	k.pinged = now
	pong, err := k.renewer.Ping(ctx)
	if err != nil {
		// Only a rejected certificate matters here. Other errors, for example an unreachable broker, say
		// nothing about the certificate.
		k.untrusted = isUntrusted(err)
		return
	}
	k.untrusted = false
	k.outdated = pong.TrustDigest != "" && pong.TrustDigest != c.trustDigest
}

// isUntrusted reports whether a call failed because one side rejected the other's certificate.
func isUntrusted(err error) bool {
	return errors.Is(err, transport.ErrUntrusted) || fault.ReasonOf(err) == fault.Forbidden
}

// pauseUntil returns when a pause ends: at the given time or, on the leader, at the time of the
// next ping if that is earlier.
func (k *Keeper) pauseUntil(until, now time.Time) time.Time {
	if !k.isLeading() {
		return until
	}
	if next := k.pinged.Add(pingInterval); next.Before(until) && next.After(now) {
		return next
	}
	return until
}
