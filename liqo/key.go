package liqo

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"
)

// keyMaxAge is how long the key pair of Liqo is believed. It changes when somebody
// deletes it; all placements of a pair must see the same.
const keyMaxAge = 10 * time.Second

// clusterKey is the key pair of this cluster's Liqo, the public one in DER and PEM.
type clusterKey struct {
	der, pem []byte
	private  []byte
	readAt   time.Time
}

// readClusterKey reads the Secret in which Liqo keeps the key pair.
func readClusterKey(secret *corev1.Secret, now time.Time) (*clusterKey, error) {
	public := secret.Data[consts.PublicKeyField]
	block, _ := pem.Decode(public)
	if block == nil {
		return nil, fmt.Errorf("key pair of Liqo: Secret %q holds no public key in PEM", secret.Name)
	}
	return &clusterKey{der: block.Bytes, pem: public, private: secret.Data[consts.PrivateKeyField], readAt: now}, nil
}

// isFresh reports whether the key was read recently enough to be used.
func (k *clusterKey) isFresh(now time.Time) bool { return now.Sub(k.readAt) < keyMaxAge }

func (k *clusterKey) parsePrivate() (any, error) {
	block, _ := pem.Decode(k.private)
	if block == nil {
		return nil, errors.New("key pair of Liqo: its Secret holds no private key in PEM")
	}
	return x509.ParsePKCS8PrivateKey(block.Bytes)
}

func sameKey(a, b []byte) bool {
	_, left, err := authentication.ParseTenantPublicKey(a)
	if err != nil {
		return false
	}
	_, right, err := authentication.ParseTenantPublicKey(b)
	return err == nil && string(left) == string(right)
}

// errRefused marks a message of the provider that no honest provider sends. Nothing is
// sent in answer to it.
var errRefused = errors.New("refused")

// answerChallenge returns the consumer's answer to a challenge, signed with the key of its
// Liqo. The error is errRefused for a challenge that no honest provider sends.
func answerChallenge(pair Pair, challenge *received, key *clusterKey, namespace string) (payload []byte, digest string, err error) {
	var c Challenge
	if err := challenge.body(&c); err != nil {
		return nil, "", fmt.Errorf("%w: %w", errRefused, err)
	}
	if err := checkNonce(c.Nonce); err != nil {
		return nil, "", fmt.Errorf("%w: challenge of %q: %w", errRefused, pair.Provider, err)
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
		Epoch: challenge.Epoch, Step: StepAnswer, PreviousDigest: challenge.digest,
	}
	return encode(&m, Answer{TenantNamespace: namespace, PublicKey: key.pem, CSR: csr, Signature: signature})
}
