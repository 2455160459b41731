package identity

import (
	"context"
	"errors"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// pingInterval is how often the agent asks the broker which roots it trusts.
const pingInterval = time.Minute

// pingBroker learns which roots the broker trusts, and whether it accepts the certificate.
func (k *Keeper) pingBroker(ctx context.Context, c *Certificate) {
	now := k.clock.Now()
	if c == nil || !k.isLeading() || now.Before(k.pinged.Add(pingInterval)) {
		return
	}
	k.pinged = now
	pong, err := k.renewer.Ping(ctx)
	if err != nil {
		// An unreachable broker reveals nothing about certificates.
		k.untrusted = isUntrusted(err)
		return
	}
	k.untrusted = false
	k.outdated = pong.TrustDigest != "" && pong.TrustDigest != c.trustDigest
}

// isUntrusted reports whether TLS or the broker rejected the certificate.
func isUntrusted(err error) bool {
	return errors.Is(err, transport.ErrUntrusted) || fault.ReasonOf(err) == fault.Forbidden
}

// pauseUntil shortens a pause so that the next ping happens in time.
func (k *Keeper) pauseUntil(until, now time.Time) time.Time {
	if !k.isLeading() {
		return until
	}
	if next := k.pinged.Add(pingInterval); next.Before(until) && next.After(now) {
		return next
	}
	return until
}
