package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Step is the next thing to do.
type Step string

// Steps of a Plan.
const (
	// Publish writes the Secret's certificate to the files.
	Publish Step = "publish"
	// Restore writes the certificate in the files back to a Secret that lost it.
	Restore Step = "restore"
	// Prepare creates a key and its request, and stores both.
	Prepare Step = "prepare"
	// Enrol sends the request to the enrolment listener.
	Enrol Step = "enrol"
	// Renew sends the request with the current certificate.
	Renew Step = "renew"
	// Wait does nothing until the Plan's time, or until something changes.
	Wait Step = "wait"
	// Stuck waits for an administrator: there is no usable certificate and no way to get one.
	Stuck Step = "stuck"
)

// Situation is the input of Decide.
type Situation struct {
	State
	Now time.Time
	// ClusterID is the cluster to enrol as.
	ClusterID string
	// Published is the certificate in the files; nil if unknown.
	Published *Certificate
	// Received is when this process last received a certificate, by the local clock.
	Received time.Time
	// Leading reports whether this replica renews.
	Leading bool
	// CanEnrol reports whether the broker's enrolment address is known.
	CanEnrol bool
	// Untrusted reports whether broker and agent reject each other's certificates although the
	// current one has not expired.
	Untrusted bool
	// Outdated reports whether the broker's roots differ from those in the Secret.
	Outdated bool
}

// Plan is the next step and, for Wait, how long to wait.
type Plan struct {
	Step Step
	// Until is when the next step is due at the latest.
	Until time.Time
}

// trustPause is the minimum age of a certificate before it is renewed because of new roots: the
// broker's replicas learn of new roots one after the other.
const trustPause = 10 * time.Minute

// needsBroker reports whether the step needs an answer of the broker.
func (p Plan) needsBroker() bool { return p.Step == Enrol || p.Step == Renew }

// Decide returns the next step.
func Decide(s Situation) Plan {
	c := s.Certificate
	if c == nil && s.Published != nil && !s.Published.hasExpired(s.Now) {
		return Plan{Step: Restore}
	}
	if c == nil || c.hasExpired(s.Now) {
		return s.planFirst()
	}
	if !c.sameAs(s.Published) {
		return Plan{Step: Publish}
	}
	due := s.renewalDue()
	switch {
	case !s.Leading:
		// The leader's result arrives through the Secret.
		return Plan{Step: Wait, Until: c.Leaf.NotAfter}
	case s.Untrusted && s.CanEnrol:
		return s.planRequest(Enrol)
	case !s.Now.Before(due):
		return s.planRequest(Renew)
	}
	return Plan{Step: Wait, Until: due}
}

// renewalDue returns when to renew. It also counts from when the certificate was received: with
// a local clock far ahead of the issuer's, every certificate would be due immediately.
func (s Situation) renewalDue() time.Time {
	leaf := s.Certificate.Leaf
	due := laterOf(RenewalTime(s.Certificate), s.Received.Add(leaf.NotAfter.Sub(leaf.NotBefore)/3))
	if s.Outdated {
		return earlierOf(due, laterOf(leaf.NotBefore, s.Received).Add(trustPause))
	}
	return due
}

func laterOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// planFirst plans the first certificate. Every replica may do so, because all send the request
// stored in the Secret.
func (s Situation) planFirst() Plan {
	if !s.CanEnrol {
		return Plan{Step: Stuck}
	}
	return s.planRequest(Enrol)
}

// planRequest sends the pending request, or creates one: a key is never used for a second
// certificate.
func (s Situation) planRequest(how Step) Plan {
	if r := s.Request; r == nil || r.ClusterID != s.ClusterID {
		return Plan{Step: Prepare}
	}
	return Plan{Step: how}
}

// RenewalTime is two thirds into the lifetime, minus up to a thirtieth, so that clusters
// enrolled together do not renew together.
func RenewalTime(c *Certificate) time.Time {
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	digest := sha256.Sum256(c.Leaf.Raw)
	early := time.Duration(float64(life) / 30 * float64(binary.BigEndian.Uint32(digest[:])) / (1 << 32))
	return c.Leaf.NotBefore.Add(life*2/3 - early)
}
