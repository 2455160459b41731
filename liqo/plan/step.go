package plan

// HandshakeStep is what one side of a handshake waits for.
type HandshakeStep string

// The steps of each side, in their order. The consumer waits for the challenge, then for the
// credentials, and then until Liqo uses the identity. The provider waits for the answer, and then
// until Liqo has signed the certificate.
const (
	AwaitChallenge   HandshakeStep = "challenge"
	AwaitCredentials HandshakeStep = "credentials"
	AwaitIdentity    HandshakeStep = "identity"
	AwaitAnswer      HandshakeStep = "answer"
	AwaitCertificate HandshakeStep = "certificate"

	// NoStep means that no handshake is under way, for example because the placement has ended or
	// an earlier peering must be removed first. HandshakeDone means that this side is peered.
	NoStep        HandshakeStep = ""
	HandshakeDone HandshakeStep = "done"
)

// HandshakeSteps are the steps whose durations are measured.
var HandshakeSteps = []HandshakeStep{AwaitChallenge, AwaitCredentials, AwaitIdentity, AwaitAnswer, AwaitCertificate}

// stepOrder numbers the steps of each side.
var stepOrder = map[HandshakeStep]int{
	AwaitChallenge: 1, AwaitCredentials: 2, AwaitIdentity: 3,
	AwaitAnswer: 1, AwaitCertificate: 2,
	HandshakeDone: 4,
}

// Before reports whether s comes before another step of the same side.
func (s HandshakeStep) Before(other HandshakeStep) bool { return stepOrder[s] < stepOrder[other] }

// HandshakeStep returns what the consumer's side waits for. It is HandshakeDone while the identity
// works, even if the identity is due for renewal.
func (v *ConsumerView) HandshakeStep() HandshakeStep {
	switch {
	case v.Release, v.Namespace.Terminating, v.Identity.Terminating, !v.Identity.IsWritable():
		return NoStep
	case v.Identity.Works():
		return HandshakeDone
	case v.Handshake.Credentials, v.Identity.Exists && v.Identity.Fits && !v.Identity.Parted && !v.Identity.Expired:
		return AwaitIdentity
	case v.Handshake.Challenged:
		return AwaitCredentials
	}
	return AwaitChallenge
}

// HandshakeStep returns what the provider's side waits for.
func (v *ProviderView) HandshakeStep() HandshakeStep {
	switch {
	case v.Release, v.Unpeer, v.Namespace.Terminating, v.Tenant.Terminating:
		return NoStep
	case v.Tenant.Exists && v.Tenant.Ready && (!v.Handshake.Answered || v.Handshake.SameKey):
		return HandshakeDone
	case v.Handshake.Answered:
		return AwaitCertificate
	case v.Nonce.IsUsable():
		return AwaitAnswer
	}
	return NoStep
}
