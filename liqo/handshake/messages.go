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

// Step is a step of the handshake that gives a consumer an identity at a provider, or the
// description of one side's network.
type Step int

// Steps of the handshake, in order. A provider starts with the challenge, unasked. A consumer
// that lost its identity, or received no challenge, starts with the request.
const (
	StepRequest     Step = 0 // consumer to provider
	StepChallenge   Step = 1 // provider to consumer
	StepAnswer      Step = 2 // consumer to provider
	StepCredentials Step = 3 // provider to consumer
)

// Steps in which each side describes its network, after every change.
const (
	StepConsumerNetwork Step = 4 // consumer to provider
	StepProviderNetwork Step = 5 // provider to consumer
)

// Steps of the handshake and of connecting networks, in their order.
var (
	HandshakeSteps = []Step{StepRequest, StepChallenge, StepAnswer, StepCredentials}
	NetworkSteps   = []Step{StepConsumerNetwork, StepProviderNetwork}
)

// Pair is a consumer and a provider: one direction of peering.
type Pair struct {
	Consumer, Provider string
}

// senderOf returns the cluster that sends a step.
func (p Pair) senderOf(s Step) string {
	if s == StepAnswer || s == StepRequest || s == StepConsumerNetwork {
		return p.Consumer
	}
	return p.Provider
}

// Receiver returns the cluster that receives a step.
func (p Pair) Receiver(s Step) string {
	if p.senderOf(s) == p.Consumer {
		return p.Provider
	}
	return p.Consumer
}

// Slot names the broker's slot for a step of the pair. A later message replaces an earlier one.
func (p Pair) Slot(s Step) string {
	return "peering/" + p.Consumer + "/" + p.Provider + "/" + strconv.Itoa(int(s))
}

// Posting names a step of the pair in the Outbox.
func (p Pair) Posting(s Step) string { return "message/" + p.Slot(s) }

// Message is the signed payload of an envelope. No part is secret; every part must be
// authentic.
type Message struct {
	Consumer string `json:"consumer"`
	Provider string `json:"provider"`
	// Placement is the placement for which the sender peers. The receiver ignores a message
	// for a placement that it does not know, because the message is outdated.
	Placement string `json:"placement"`
	// Epoch identifies a handshake: the provider derives it from its nonce. It is empty in a
	// request. In a message about a network it is the epoch of the sender's agent, which is
	// new after each start.
	Epoch string `json:"epoch,omitempty"`
	// Heard is the receiver's epoch that the sender received last, in a message about a
	// network. The receiver uses only messages that name its current epoch, so an old message
	// cannot be replayed after a restart.
	Heard string `json:"heard,omitempty"`
	// At orders a sender's messages about its network. It is the sender's clock in
	// nanoseconds, and never decreases. The receiver ignores a message older than the last.
	At   int64 `json:"at,omitempty"`
	Step Step  `json:"step"`
	// PreviousDigest is the Digest of the message that this one answers. It is
	// empty in a request, a challenge, and credentials that answer a request.
	PreviousDigest string          `json:"previousDigest,omitempty"`
	Body           json.RawMessage `json:"body"`
}

// Request is the body of StepRequest, with which the consumer begins a handshake.
type Request struct {
	// PublicKey is the key of the consumer's Liqo, in PEM. If the provider's credentials are
	// for this key, it sends them again; otherwise it sends a challenge.
	PublicKey []byte `json:"publicKey"`
}

// Challenge is the body of StepChallenge.
type Challenge struct {
	TenantNamespace string `json:"tenantNamespace"`
	Nonce           []byte `json:"nonce"`
}

// Answer is the body of StepAnswer.
type Answer struct {
	TenantNamespace string `json:"tenantNamespace"`
	// PublicKey is the key of the consumer's Liqo, in PEM.
	PublicKey []byte `json:"publicKey"`
	CSR       []byte `json:"csr"`
	// Signature is the signature of the nonce.
	Signature []byte `json:"signature"`
}

// Credentials is the body of StepCredentials. It is useless without the consumer's private key.
type Credentials struct {
	TenantNamespace string  `json:"tenantNamespace"`
	APIServer       string  `json:"apiServer"`
	CA              []byte  `json:"ca,omitempty"`
	SignedCRT       []byte  `json:"signedCRT"`
	ProxyURL        *string `json:"proxyURL,omitempty"`
}

// AuthParams returns the credentials as Liqo's Identity has them.
func (c *Credentials) AuthParams() authv1beta1.AuthParams {
	return authv1beta1.AuthParams{APIServer: c.APIServer, CA: c.CA, SignedCRT: c.SignedCRT, ProxyURL: c.ProxyURL}
}

func (m *Message) clusterPair() Pair { return Pair{Consumer: m.Consumer, Provider: m.Provider} }

// Encode sets the body of the message, and returns the payload and its digest.
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

// decodeMessage parses a payload that signer signed and self received. It refuses messages that signer
// may not send to self.
func decodeMessage(payload []byte, signer, self string) (*Message, error) {
	var m Message
	if err := json.Unmarshal(payload, &m); err != nil {
		return nil, fmt.Errorf("peering message of %q: %w", signer, err)
	}
	if m.Step < StepRequest || m.Step > StepProviderNetwork {
		return nil, fmt.Errorf("peering message of %q: step %d is not from 0 to 5", signer, m.Step)
	}
	if got := m.clusterPair().senderOf(m.Step); got != signer {
		return nil, fmt.Errorf("peering message of %q: step %d of %q and %q is for %q to send", signer, m.Step, m.Consumer, m.Provider, got)
	}
	if got := m.clusterPair().Receiver(m.Step); got != self || got == signer {
		return nil, fmt.Errorf("peering message of %q: step %d is for %q, not for %q", signer, m.Step, got, self)
	}
	if m.Placement == "" || m.Epoch == "" && m.Step != StepRequest {
		return nil, fmt.Errorf("peering message of %q: no epoch or no placement", signer)
	}
	return &m, nil
}

// EpochOf returns the epoch of the handshakes with one nonce in one tenant namespace.
func EpochOf(namespaceUID string, nonce []byte) string {
	sum := sha256.Sum256(append([]byte(namespaceUID+"\x00"), nonce...))
	return hex.EncodeToString(sum[:16])
}

// CheckAnswer refuses an answer that does not prove that the consumer holds the private key, or
// that requests a certificate for another subject.
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

// CheckCredentials refuses credentials that are not for this consumer and the holder of
// publicKey (PKIX, DER), or that no kubeconfig can hold.
func CheckCredentials(c *Credentials, publicKey []byte, consumer string) error {
	if len(c.SignedCRT) > maxCertificates {
		return fmt.Errorf("certificate of %d bytes, at most %d are accepted", len(c.SignedCRT), maxCertificates)
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

// CertificateFits reports whether a certificate is for a consumer's control plane and its key.
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

// ParseCertificate returns nil if crt is not a certificate in PEM.
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
