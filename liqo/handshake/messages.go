// Package handshake gives a consumer an identity at a provider. The messages pass through the
// broker, which cannot use them as a credential.
//
// The package contains the messages of both sides, the mailbox that keeps the newest message
// of each step, and the checks of everything that a peer sends. It checks nonces before this
// cluster signs them, certificate requests before this cluster has them signed, and API
// servers and certificates before this cluster's Liqo uses them.
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

// Step is the kind of a message between two agents: one of the four steps of the handshake that gives
// a consumer an identity at a provider, or the description of one side's network.
type Step int

// Steps of the handshake, in order. Normally the provider begins with the challenge. A consumer that
// lost its identity, or received no challenge, begins with the request.
const (
	StepRequest     Step = 0 // consumer to provider
	StepChallenge   Step = 1 // provider to consumer
	StepAnswer      Step = 2 // consumer to provider
	StepCredentials Step = 3 // provider to consumer
)

// Steps in which the consumer and the provider describe their networks. Each sends its description
// again after every change of its network.
const (
	StepConsumerNetwork Step = 4 // consumer to provider
	StepProviderNetwork Step = 5 // provider to consumer
)

// HandshakeSteps are the steps of the handshake, and NetworkSteps those that connect the networks.
var (
	HandshakeSteps = []Step{StepRequest, StepChallenge, StepAnswer, StepCredentials}
	NetworkSteps   = []Step{StepConsumerNetwork, StepProviderNetwork}
)

// Pair is a consumer and a provider, by cluster ID. Two clusters that lend to each other form two
// pairs.
type Pair struct {
	Consumer, Provider string
}

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

// Slot returns the name of the slot in which the broker keeps the messages of a step of the pair. A
// later message in a slot replaces an earlier one.
func (p Pair) Slot(s Step) string {
	return "peering/" + p.Consumer + "/" + p.Provider + "/" + strconv.Itoa(int(s))
}

// Posting returns the key under which the Outbox sends the messages of a step of the pair.
func (p Pair) Posting(s Step) string { return "message/" + p.Slot(s) }

// Message is the signed payload of an envelope. No part of it is secret, but the signature must prove
// that every part comes from the sender.
type Message struct {
	Consumer string `json:"consumer"`
	Provider string `json:"provider"`
	// Placement is one of the placements for which the sender peers. The receiver ignores messages that
	// name a placement it does not know or that has ended, because they are outdated.
	Placement string `json:"placement"`
	// Epoch identifies the handshake to which the message belongs; the provider derives it from its
	// nonce. It is empty in a request. In a message about a network, it is the epoch of the sender's
	// mailbox, which is new after each start of the agent.
	Epoch string `json:"epoch,omitempty"`
	// Heard is set only in a message about a network. It is the receiver's epoch, as far as the sender
	// knows it. The receiver uses only messages that name its current epoch, so that nobody can replay
	// old messages after a restart.
	Heard string `json:"heard,omitempty"`
	// At orders the messages that a sender sends about its network. It is the sender's time in Unix
	// nanoseconds, and never decreases. The receiver ignores a message whose At is smaller than that of
	// an earlier message.
	At   int64 `json:"at,omitempty"`
	Step Step  `json:"step"`
	// PreviousDigest is the digest of the message that this message answers. It is empty in a request,
	// in a challenge, in credentials that answer a request, and in messages about networks.
	PreviousDigest string          `json:"previousDigest,omitempty"`
	Body           json.RawMessage `json:"body"`
}

// Request is the body of StepRequest, with which the consumer begins a handshake.
type Request struct {
	// PublicKey is the public key of the consumer's Liqo, in PEM. If the provider has issued
	// credentials for this key, it sends them again. Otherwise it sends a challenge.
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
	// PublicKey is the public key of the consumer's Liqo, in PEM.
	PublicKey []byte `json:"publicKey"`
	CSR       []byte `json:"csr"`
	// Signature is the signature of the challenge's nonce with the private key of the consumer's Liqo.
	Signature []byte `json:"signature"`
}

// Credentials is the body of StepCredentials. It is of no use without the consumer's private key, so
// it may pass through the broker.
type Credentials struct {
	TenantNamespace string  `json:"tenantNamespace"`
	APIServer       string  `json:"apiServer"`
	CA              []byte  `json:"ca,omitempty"`
	SignedCRT       []byte  `json:"signedCRT"`
	ProxyURL        *string `json:"proxyURL,omitempty"`
}

// AuthParams returns the credentials in the form in which a Liqo Identity stores them.
func (c *Credentials) AuthParams() authv1beta1.AuthParams {
	return authv1beta1.AuthParams{APIServer: c.APIServer, CA: c.CA, SignedCRT: c.SignedCRT, ProxyURL: c.ProxyURL}
}

func (m *Message) clusterPair() Pair { return Pair{Consumer: m.Consumer, Provider: m.Provider} }

// Encode stores body in the message m. It returns the message as payload, and the payload's digest.
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

// decodeMessage parses a payload that signer has signed and self has received. It returns an error for
// a message that signer may not send to self.
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

// EpochOf returns the epoch of a handshake, which depends on the nonce and on the provider's tenant
// namespace.
func EpochOf(namespaceUID string, nonce []byte) string {
	sum := sha256.Sum256(append([]byte(namespaceUID+"\x00"), nonce...))
	return hex.EncodeToString(sum[:16])
}

// CheckAnswer returns an error for an answer that does not prove that the consumer holds the private
// key, or whose certificate request is for another subject than the consumer.
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

// CheckCredentials returns an error for credentials that are not for this consumer and its publicKey
// (PKIX, DER), or that cannot be stored in a kubeconfig.
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

// CertificateFits reports whether a certificate (PEM) is for the control plane of the consumer and for
// publicKey (PKIX, DER).
func CertificateFits(crt, publicKey []byte, consumer string) bool {
	cert := ParseCertificate(crt)
	return cert != nil && string(cert.RawSubjectPublicKeyInfo) == string(publicKey) &&
		cert.Subject.CommonName == authentication.CommonNameControlPlaneCSR(liqov1beta1.ClusterID(consumer))
}

// IssuedLater reports whether crt is a newer certificate than the second one: it became valid later,
// or the second one cannot be parsed.
func IssuedLater(crt, than []byte) bool {
	newer, older := ParseCertificate(crt), ParseCertificate(than)
	return newer != nil && (older == nil || newer.NotBefore.After(older.NotBefore))
}

// ParseCertificate parses a certificate in PEM. It returns nil if crt is not one.
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
