package handshake

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"strconv"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Step of the handshake that gives a consumer an identity at a provider, or one side's
// part in connecting their networks.
type Step int

// Steps in their order. A provider starts with the challenge unasked. A consumer
// that lost its identity, or that heard nothing, starts with the request.
const (
	StepRequest     Step = 0 // consumer to provider
	StepChallenge   Step = 1 // provider to consumer
	StepAnswer      Step = 2 // consumer to provider
	StepCredentials Step = 3 // provider to consumer
)

// What each side says of its network, as often as it changes.
const (
	StepConsumerNetwork Step = 4 // consumer to provider
	StepProviderNetwork Step = 5 // provider to consumer
)

var (
	HandshakeSteps = []Step{StepRequest, StepChallenge, StepAnswer, StepCredentials}
	NetworkSteps   = []Step{StepConsumerNetwork, StepProviderNetwork}
)

// Pair is a consumer and a provider: one direction of peering.
type Pair struct {
	Consumer, Provider string
}

// sender of a step.
func (p Pair) sender(s Step) string {
	if s == StepAnswer || s == StepRequest || s == StepConsumerNetwork {
		return p.Consumer
	}
	return p.Provider
}

// Receiver of a step.
func (p Pair) Receiver(s Step) string {
	if p.sender(s) == p.Consumer {
		return p.Provider
	}
	return p.Consumer
}

// Slot in which a step of the pair crosses; a later message replaces an earlier one.
func (p Pair) Slot(s Step) string {
	return "peering/" + p.Consumer + "/" + p.Provider + "/" + strconv.Itoa(int(s))
}

// Posting names a step of the pair in the Outbox.
func (p Pair) Posting(s Step) string { return "message/" + p.Slot(s) }

// Message is the signed payload of an envelope. None of it is secret; all of it
// must be authentic.
type Message struct {
	Consumer string `json:"consumer"`
	Provider string `json:"provider"`
	// Placement for which the sender peers. A message for one that the receiver
	// does not know is an old one and is not used.
	Placement string `json:"placement"`
	// Epoch is minted by the provider with its nonce; another epoch is another
	// handshake. It is empty in a request. Of its network each side speaks under an epoch
	// of its own, minted when its agent starts.
	Epoch string `json:"epoch,omitempty"`
	// Heard is, in what is said of a network, the epoch of the receiver that the sender
	// heard last. The receiver uses what names its present one: nobody can have kept it
	// from before.
	Heard string `json:"heard,omitempty"`
	// At orders what a sender says of its network: by its own clock, in nanoseconds, and
	// never going back. What is older than the last is not used.
	At   int64 `json:"at,omitempty"`
	Step Step  `json:"step"`
	// PreviousDigest is the Digest of the message that this one answers. It is
	// empty in a request, a challenge, and credentials that answer a request.
	PreviousDigest string          `json:"previousDigest,omitempty"`
	Body           json.RawMessage `json:"body"`
}

// Request is the body of a request.
type Request struct {
	// PublicKey of the consumer's Liqo, in PEM. The provider sends credentials again
	// if they are for this key, else a challenge.
	PublicKey []byte `json:"publicKey"`
}

// Challenge is the body of the first step.
type Challenge struct {
	TenantNamespace string `json:"tenantNamespace"`
	Nonce           []byte `json:"nonce"`
}

// Answer is the body of the second step.
type Answer struct {
	TenantNamespace string `json:"tenantNamespace"`
	// PublicKey of the consumer's Liqo, in PEM.
	PublicKey []byte `json:"publicKey"`
	CSR       []byte `json:"csr"`
	// Signature of the nonce.
	Signature []byte `json:"signature"`
}

// Credentials is the body of the third step. It is worth nothing without the
// consumer's private key.
type Credentials struct {
	TenantNamespace string  `json:"tenantNamespace"`
	APIServer       string  `json:"apiServer"`
	CA              []byte  `json:"ca,omitempty"`
	SignedCRT       []byte  `json:"signedCRT"`
	ProxyURL        *string `json:"proxyURL,omitempty"`
}

func (c *Credentials) AuthParams() authv1beta1.AuthParams {
	return authv1beta1.AuthParams{APIServer: c.APIServer, CA: c.CA, SignedCRT: c.SignedCRT, ProxyURL: c.ProxyURL}
}

func (m *Message) pair() Pair { return Pair{Consumer: m.Consumer, Provider: m.Provider} }

// Encode returns the payload and its digest.
func Encode(m *Message, body any) (payload []byte, digest string, err error) {
	if m.Body, err = json.Marshal(body); err != nil {
		return nil, "", err
	}
	if payload, err = json.Marshal(m); err != nil {
		return nil, "", err
	}
	return payload, digestOf(payload), nil
}

func digestOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// decode reads a payload that signer signed and self received. It refuses what
// signer may not say to self.
func decode(payload []byte, signer, self string) (*Message, error) {
	var m Message
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, fmt.Errorf("peering message of %q: %w", signer, err)
	}
	if m.Step < StepRequest || m.Step > StepProviderNetwork {
		return nil, fmt.Errorf("peering message of %q: step %d is none of 0 to 5", signer, m.Step)
	}
	if got := m.pair().sender(m.Step); got != signer {
		return nil, fmt.Errorf("peering message of %q: step %d of %q and %q is for %q to send", signer, m.Step, m.Consumer, m.Provider, got)
	}
	if got := m.pair().Receiver(m.Step); got != self || got == signer {
		return nil, fmt.Errorf("peering message of %q: step %d is for %q, not for %q", signer, m.Step, got, self)
	}
	if m.Placement == "" || m.Epoch == "" && m.Step != StepRequest {
		return nil, fmt.Errorf("peering message of %q: no epoch or no placement", signer)
	}
	return &m, nil
}

// EpochOf names the handshakes made with one nonce in one tenant namespace.
func EpochOf(namespaceUID string, nonce []byte) string {
	sum := sha256.Sum256(append([]byte(namespaceUID+"\x00"), nonce...))
	return hex.EncodeToString(sum[:16])
}

// CheckAnswer refuses an answer with which the consumer did not prove that it
// holds the private key, or which asks for a certificate of another.
func CheckAnswer(a *Answer, nonce []byte, consumer string) error {
	key, der, err := authentication.ParseTenantPublicKey(a.PublicKey)
	if err != nil {
		return fmt.Errorf("public key of %q: %w", consumer, err)
	}
	if err := authentication.CheckCSRForControlPlane(a.CSR, der, liqov1beta1.ClusterID(consumer)); err != nil {
		return fmt.Errorf("certificate request of %q: %w", consumer, err)
	}
	want := Subject{Organisation: object.ControlPlaneGroup, CommonName: consumer}
	if err := CheckSigningRequest(a.CSR, want); err != nil {
		return fmt.Errorf("certificate request of %q: %w", consumer, err)
	}
	ok, err := authentication.VerifyNonce(key, nonce, a.Signature)
	if err != nil {
		return fmt.Errorf("nonce of %q: %w", consumer, err)
	}
	if !ok {
		return fmt.Errorf("nonce of %q: the signature does not fit its public key", consumer)
	}
	return nil
}

// CheckCredentials refuses credentials that are not for the holder of publicKey
// (PKIX, DER) as consumer, or that no kubeconfig can hold.
func CheckCredentials(c *Credentials, publicKey []byte, consumer string) error {
	if len(c.SignedCRT) > maxCertificates {
		return fmt.Errorf("certificate of %d bytes, at most %d are used", len(c.SignedCRT), maxCertificates)
	}
	if !CertificateFits(c.SignedCRT, publicKey, consumer) {
		return errors.New("the certificate is not for this cluster's key and ID")
	}
	if _, err := canonicalServer(c.APIServer); err != nil {
		return err
	}
	if err := checkCertificates(c.CA); err != nil {
		return err
	}
	return checkNamespace(c.TenantNamespace)
}

func CertificateFits(crt, publicKey []byte, consumer string) bool {
	cert := ParseCertificate(crt)
	return cert != nil && string(cert.RawSubjectPublicKeyInfo) == string(publicKey) &&
		cert.Subject.CommonName == authentication.CommonNameControlPlaneCSR(liqov1beta1.ClusterID(consumer))
}

// IssuedLater reports whether a certificate is newer than another.
func IssuedLater(crt, than []byte) bool {
	newer, older := ParseCertificate(crt), ParseCertificate(than)
	return newer != nil && (older == nil || newer.NotBefore.After(older.NotBefore))
}

// ParseCertificate returns nil for what is no certificate.
func ParseCertificate(crt []byte) *x509.Certificate {
	block, _ := pem.Decode(crt)
	if block == nil {
		return nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil
	}
	return cert
}
