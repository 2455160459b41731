package identity

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// Step is what comes next.
type Step string

// Steps of a Plan.
const (
	// Publish brings the Secret's certificate to the files.
	Publish Step = "publish"
	// Restore brings the certificate in the files back to the Secret, which lost it.
	Restore Step = "restore"
	// Prepare makes a key and its request, and stores both.
	Prepare Step = "prepare"
	// Enrol sends the request to where no certificate is needed.
	Enrol Step = "enrol"
	// Renew sends the request with the certificate in use.
	Renew Step = "renew"
	// Wait is for the time in the Plan, or until something changes.
	Wait Step = "wait"
	// Stuck waits for somebody: there is no certificate to use and no way to one.
	Stuck Step = "stuck"
)

// Situation is everything that a Plan depends on.
type Situation struct {
	State
	Now time.Time
	// ClusterID is the cluster to enrol as.
	ClusterID string
	// Published is the certificate in the files; nil if that is not known.
	Published *Certificate
	// Received is when this process was last issued a certificate, by the clock here.
	Received time.Time
	// Leading says that this replica is the one that renews.
	Leading bool
	// CanEnrol says that the broker's enrolment listener is known.
	CanEnrol bool
	// Untrusted says that broker and agent do not take each other's certificates,
	// though the one in use has not expired.
	Untrusted bool
	// Outdated says that the broker's roots are others than those in the Secret.
	Outdated bool
}

// Plan is a step and, for Wait, how long.
type Plan struct {
	Step Step
	// Until is when the next step is due at the latest.
	Until time.Time
}

// trustPause is the least age at which a certificate is renewed for other roots:
// replicas of the broker learn of new ones one after the other.
const trustPause = 10 * time.Minute

// asks says that the step needs the broker's answer.
func (p Plan) asks() bool { return p.Step == Enrol || p.Step == Renew }

// Decide says what comes next.
func Decide(s Situation) Plan {
	c := s.Certificate
	if c == nil && s.Published != nil && !s.Published.expired(s.Now) {
		return Plan{Step: Restore}
	}
	if c == nil || c.expired(s.Now) {
		return s.first()
	}
	if !c.same(s.Published) {
		return Plan{Step: Publish}
	}
	due := s.due()
	switch {
	case !s.Leading:
		// The leader's result comes through the Secret.
		return Plan{Step: Wait, Until: c.Leaf.NotAfter}
	case s.Untrusted && s.CanEnrol:
		return s.request(Enrol)
	case !s.Now.Before(due):
		return s.request(Renew)
	}
	return Plan{Step: Wait, Until: due}
}

// due is when the certificate is to be renewed. The time since it was received
// counts too: with a clock that is far ahead of the issuer's, every certificate
// would be due at once.
func (s Situation) due() time.Time {
	leaf := s.Certificate.Leaf
	due := later(RenewalTime(s.Certificate), s.Received.Add(leaf.NotAfter.Sub(leaf.NotBefore)/3))
	if s.Outdated {
		return earlier(due, later(leaf.NotBefore, s.Received).Add(trustPause))
	}
	return due
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// first is the way to a certificate without one. Every replica may go it: all send
// the request that the Secret holds.
func (s Situation) first() Plan {
	if !s.CanEnrol {
		return Plan{Step: Stuck}
	}
	return s.request(Enrol)
}

// request sends what waits for an answer, or makes it: a key is never used for a
// second certificate.
func (s Situation) request(how Step) Plan {
	if r := s.Request; r == nil || r.ClusterID != s.ClusterID {
		return Plan{Step: Prepare}
	}
	return Plan{Step: how}
}

// RenewalTime is when two thirds of c's life are over, or up to a thirtieth of it
// earlier: clusters that were enrolled together renew apart.
func RenewalTime(c *Certificate) time.Time {
	life := c.Leaf.NotAfter.Sub(c.Leaf.NotBefore)
	digest := sha256.Sum256(c.Leaf.Raw)
	early := time.Duration(float64(life) / 30 * float64(binary.BigEndian.Uint32(digest[:])) / (1 << 32))
	return c.Leaf.NotBefore.Add(life*2/3 - early)
}
