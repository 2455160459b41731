package pki

// Names that the external tests need.
const (
	MaxChain     = maxChain
	DataLink     = dataLink
	PollInterval = pollInterval
)

type Envelope = envelope

var (
	SignedBytes   = signedBytes
	OIDCommonName = oidCommonName
)
