package identity

import (
	"context"
	"errors"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/transport"
)

// pingInterval is how often the broker is asked which roots it trusts.
const pingInterval = time.Minute

// ping learns which roots the broker trusts, and whether it takes the certificate.
func (k *Keeper) ping(ctx context.Context, c *Certificate) {
	now := k.clock.Now()
	if c == nil || !k.leading() || now.Before(k.pinged.Add(pingInterval)) {
		return
	}
	k.pinged = now
	pong, err := k.renewer.Ping(ctx)
	if err != nil {
		// A broker that is away says nothing about certificates.
		k.untrusted = distrust(err)
		return
	}
	k.untrusted = false
	k.outdated = pong.TrustDigest != "" && pong.TrustDigest != c.trustDigest
}

// distrust says that the certificate was refused, by TLS or by the broker.
func distrust(err error) bool {
	return errors.Is(err, transport.ErrUntrusted) || fault.ReasonOf(err) == fault.Forbidden
}

// pauseUntil leaves room for the next ping.
func (k *Keeper) pauseUntil(until, now time.Time) time.Time {
	if !k.leading() {
		return until
	}
	if next := k.pinged.Add(pingInterval); next.Before(until) && next.After(now) {
		return next
	}
	return until
}
