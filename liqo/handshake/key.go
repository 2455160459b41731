package handshake

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"
)

// keyMaxAge is how long a copy of Liqo's key pair is used before its Secret is read again. The
// key pair changes when someone deletes the Secret. A copy is needed so that all placements of a
// pair use the same key.
const keyMaxAge = 10 * time.Second

// ClusterKey is the key pair of this cluster's Liqo. DER and PEM both hold the public key.
type ClusterKey struct {
	DER, PEM []byte
	private  []byte
	readAt   time.Time
}

// ReadClusterKey reads the Secret in which Liqo keeps its key pair.
func ReadClusterKey(secret *corev1.Secret, now time.Time) (*ClusterKey, error) {
	public := secret.Data[consts.PublicKeyField]
	block, _ := pem.Decode(public)
	if block == nil {
		return nil, fmt.Errorf("key pair of Liqo: Secret %q holds no public key in PEM", secret.Name)
	}
	return &ClusterKey{DER: block.Bytes, PEM: public, private: secret.Data[consts.PrivateKeyField], readAt: now}, nil
}

// IsFresh reports whether the key was read less than keyMaxAge ago.
func (k *ClusterKey) IsFresh(now time.Time) bool { return now.Sub(k.readAt) < keyMaxAge }

func (k *ClusterKey) parsePrivate() (any, error) {
	block, _ := pem.Decode(k.private)
	if block == nil {
		return nil, errors.New("key pair of Liqo: its Secret holds no private key in PEM")
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

// SameKey reports whether two PEM texts contain the same public key.
func SameKey(a, b []byte) bool {
	_, left, err := authentication.ParseTenantPublicKey(a)
	if err != nil {
		return false
	}
	_, right, err := authentication.ParseTenantPublicKey(b)
	return err == nil && string(left) == string(right)
}

// ErrRefused marks a challenge that no honest provider sends. The consumer does not answer it.
var ErrRefused = errors.New("refused")

// AnswerChallenge returns the consumer's answer to a challenge, signed with the key of its Liqo.
// namespace is the consumer's tenant namespace for the provider. The error wraps ErrRefused for
// a challenge that no honest provider sends.
func AnswerChallenge(pair Pair, challenge *Received, key *ClusterKey, namespace string) (payload []byte, digest string, err error) {
	var c Challenge
	if err := challenge.Decode(&c); err != nil {
		return nil, "", fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if err := checkNonce(c.Nonce); err != nil {
		return nil, "", fmt.Errorf("%w: challenge of %q: %w", ErrRefused, pair.Provider, err)
	}
	private, err := key.parsePrivate()
	if err != nil {
		return nil, "", err
	}
	csr, err := authentication.GenerateCSRForControlPlane(private, liqov1beta1.ClusterID(pair.Consumer))
	if err != nil {
		return nil, "", err
	}
	signature, err := signNonce(private, c.Nonce)
	if err != nil {
		return nil, "", err
	}
	m := Message{
		Consumer: pair.Consumer, Provider: pair.Provider, Placement: challenge.Placement,
		Epoch: challenge.Epoch, Step: StepAnswer, PreviousDigest: challenge.Digest,
	}
	return Encode(&m, Answer{TenantNamespace: namespace, PublicKey: key.PEM, CSR: csr, Signature: signature})
}

// nonceText is the length of a nonce as text: NonceSize random bytes in base64. Liqo signs the
// text, not the bytes.
const nonceText = 88

// nonceEncoding is strict about unused bits at the end, so that each nonce has exactly one
// valid text.
var nonceEncoding = base64.StdEncoding.Strict()

// checkNonce returns an error for any nonce that Liqo's nonce controller would not make.
//
// Liqo signs the nonce alone, without any context, and with a key that also authenticates this
// cluster in TLS and signs its certificate requests. If a peer could choose the signed bytes
// freely, the signature could let it log in elsewhere as this cluster. Text of 88 base64
// characters is safe, because nothing else that such a key signs has this form: a TLS 1.3
// transcript begins with spaces, a TLS 1.2 transcript and a DER structure contain control
// bytes, an SSH message contains zeros, and a JWT contains a dot.
func checkNonce(nonce []byte) error {
	if len(nonce) != nonceText {
		return fmt.Errorf("nonce of %d bytes, Liqo's have %d: this cluster does not sign it", len(nonce), nonceText)
	}
	var random [nonceText]byte // DecodedLen would include the padding
	n, err := nonceEncoding.Decode(random[:], nonce)
	if err != nil || n != NonceSize {
		return fmt.Errorf("nonce is not the base64 text of %d bytes that Liqo makes: this cluster does not sign it", NonceSize)
	}
	return nil
}

// signNonce signs nothing that checkNonce refuses.
func signNonce(key any, nonce []byte) ([]byte, error) {
	if err := checkNonce(nonce); err != nil {
		return nil, err
	}
	return authentication.SignNonce(key, nonce)
}

// NonceSize is the number of random bytes in a nonce, as in Liqo.
const NonceSize = 64
