package identity

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// trustPause is how old a certificate must be before it is renewed because of new roots. The
// broker's replicas learn of new roots one after the other, so an earlier renewal might still
// return the old ones.
const trustPause = 10 * time.Minute

// renewalDue returns when to renew the certificate: at RenewalTime, but not before a third of its
// lifetime has passed since this process received it. Without this minimum, a clock that is far
// ahead would cause one renewal after the other. If the broker's roots have changed, a renewal is
// due as soon as the certificate is older than trustPause.
func (s Situation) renewalDue() time.Time {
	leaf := s.Certificate.Leaf
	due := slices.MaxFunc([]time.Time{RenewalTime(s.Certificate), s.Received.Add(leaf.NotAfter.Sub(leaf.NotBefore) / 3)}, time.Time.Compare)
	soon := slices.MaxFunc([]time.Time{leaf.NotBefore, s.Received}, time.Time.Compare).Add(trustPause)
	if s.Outdated && soon.Before(due) {
		return soon
	}
	return due
}

// RenewalTime returns when to renew a certificate: after two thirds of its lifetime, or up to a
// thirtieth of the lifetime earlier, so that clusters that enrolled together do not renew together.
func RenewalTime(c *Certificate) time.Time {
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	digest := sha256.Sum256(c.Leaf.Raw)
	early := time.Duration(float64(life) / 30 * float64(binary.BigEndian.Uint32(digest[:])) / (1 << 32))
	return c.Leaf.NotBefore.Add(life*2/3 - early)
}

func (k *Keeper) requestRenewal(ctx context.Context, s Situation, read *corev1.Secret) error {
	issued, err := k.renewer.RenewCertificate(ctx, &v1.RenewalRequest{Csr: string(s.Request.PEM)})
	if err != nil {
		k.untrusted = k.untrusted || isUntrusted(err)
		return errors.Join(fmt.Errorf("renewal of the certificate that expires on %s: %w",
			s.Certificate.Leaf.NotAfter.UTC().Format(time.RFC3339), err), k.discardInvalidRequest(ctx, s, read, err))
	}
	return k.storeIssued(ctx, s, read, issued)
}

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

// pauseUntil returns the given time or, on the leader, the time of the next ping if that is earlier.
func (k *Keeper) pauseUntil(until, now time.Time) time.Time {
	if !k.isLeading() {
		return until
	}
	if next := k.pinged.Add(pingInterval); next.Before(until) && next.After(now) {
		return next
	}
	return until
}
