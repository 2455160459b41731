package identity

import "time"

// Step is what the Keeper does next.
type Step string

// Steps of a Plan.
const (
	// Publish writes the Secret's certificate to the files.
	Publish Step = "publish"
	// Restore writes the certificate in the files back to the Secret, from which it has disappeared.
	Restore Step = "restore"
	// Prepare creates a key and its certificate signing request, and stores both in the Secret.
	Prepare Step = "prepare"
	// Enrol sends the stored request to the enrolment listener.
	Enrol Step = "enrol"
	// Renew sends the stored request to the broker, authenticated with the current certificate.
	Renew Step = "renew"
	// Wait does nothing until Plan.Until, or until the situation changes.
	Wait Step = "wait"
	// Stuck waits for an administrator: there is no usable certificate and no way to get one.
	Stuck Step = "stuck"
)

// Situation holds everything on which the next step depends.
type Situation struct {
	State
	Now       time.Time
	ClusterID string
	// Published is the certificate in the files; nil until this process has written them.
	Published *Certificate
	// Received is when this process last received a certificate, by the local clock.
	Received time.Time
	// Leading is true on the replica that renews the certificate.
	Leading bool
	// CanEnrol is true if the broker's enrolment address is known.
	CanEnrol bool
	// Untrusted is true if the broker rejects the agent's certificate, or if the agent rejects the
	// broker's certificate, although the agent's certificate has not expired.
	Untrusted bool
	// Outdated is true if the roots that the broker trusts differ from those in the Secret.
	Outdated bool
}

// Plan is the next step and, if this is Wait, when to stop waiting.
type Plan struct {
	Step Step
	// Until is when Wait ends at the latest; it is not set for other steps.
	Until time.Time
}

func (p Plan) needsBroker() bool { return p.Step == Enrol || p.Step == Renew }

// Decide returns the next step for a situation, without performing it.
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
		// The leader renews the certificate. The new certificate reaches this replica through the
		// Secret.
		return Plan{Step: Wait, Until: c.Leaf.NotAfter}
	case s.Untrusted && s.CanEnrol:
		return s.planRequest(Enrol)
	case !s.Now.Before(due):
		return s.planRequest(Renew)
	}
	return Plan{Step: Wait, Until: due}
}

// planFirst lets every replica enrol, because all send the request that is stored in the Secret.
func (s Situation) planFirst() Plan {
	if !s.CanEnrol {
		return Plan{Step: Stuck}
	}
	return s.planRequest(Enrol)
}

// planRequest returns a plan to send the stored request. If there is none for this cluster ID, it
// plans to create one, with a new key: no key is used for two certificates.
func (s Situation) planRequest(how Step) Plan {
	if r := s.Request; r == nil || r.ClusterID != s.ClusterID {
		return Plan{Step: Prepare}
	}
	return Plan{Step: how}
}
