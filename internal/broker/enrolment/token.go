package enrolment

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// TokenLifetime is how long after its creation a token can be used.
const TokenLifetime = time.Hour

const (
	// TokenLabel is the label of the ConfigMaps that store tokens. Its value is the
	// cluster's ID.
	TokenLabel = "broker.fluidos.eu/enrolment-token"

	tokenPrefix = "enrolment-token-"

	clusterKey = "clusterID"
	digestKey  = "secretSHA256"
	expiresKey = "expires"
	usedByKey  = "usedBy"
)

// Lengths of the ID and of the secret of a token, in characters. Both consist of lower-case
// letters and digits (base32), so the ID has 50 bits and the secret 160 bits.
const (
	idLength     = 10
	secretLength = 32
)

var tokenPattern = regexp.MustCompile(`^([a-z2-7]{10})\.([a-z2-7]{32})$`)

// Token is what the broker stores about a token. It does not contain the secret.
type Token struct {
	ID        string
	ClusterID string
	// Digest is the SHA-256 of the whole text of the token, in hexadecimal digits.
	Digest  string
	Expires time.Time
	// UsedBy is the fingerprint of the key that used the token first; "" if it was not used
	// yet.
	UsedBy string
}

// NewToken creates a token for one cluster. text is the token as it must be given to the
// agent. It is not stored anywhere.
func NewToken(clusterID string, now time.Time) (token Token, text string) {
	id, secret := rand.Text()[:idLength], (rand.Text() + rand.Text())[:secretLength]
	text = strings.ToLower(id + "." + secret)
	return Token{
		ID: strings.ToLower(id), ClusterID: clusterID, Digest: digestOf(text),
		Expires: now.Add(TokenLifetime).UTC().Truncate(time.Second),
	}, text
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func tokenID(text string) (string, bool) {
	parts := tokenPattern.FindStringSubmatch(text)
	if parts == nil {
		return "", false
	}
	return parts[1], true
}

// matchesText reports whether text is the text of this token. The comparison takes constant
// time.
func (t *Token) matchesText(text string) bool {
	return subtle.ConstantTimeCompare([]byte(t.Digest), []byte(digestOf(text))) == 1
}

func (t *Token) toConfigMap(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: tokenPrefix + t.ID, Labels: labelsFor(TokenLabel, t.ClusterID),
		},
		Data: map[string]string{
			clusterKey: t.ClusterID, digestKey: t.Digest, expiresKey: t.Expires.UTC().Format(time.RFC3339), usedByKey: t.UsedBy,
		},
	}
}

// labelsFor returns the labels of an object that the broker creates for a cluster. When the
// broker is uninstalled, its objects are found by the managed-by label.
func labelsFor(name, clusterID string) map[string]string {
	return map[string]string{brokerv1alpha1.ManagedByLabel: brokerv1alpha1.ManagedByBroker, name: clusterID}
}

func tokenOf(cm *corev1.ConfigMap) (*Token, error) {
	id, ok := strings.CutPrefix(cm.Name, tokenPrefix)
	if !ok {
		return nil, fmt.Errorf("ConfigMap %q is not an enrolment token", cm.Name)
	}
	expires, err := time.Parse(time.RFC3339, cm.Data[expiresKey])
	if err != nil {
		return nil, fmt.Errorf("ConfigMap %q: %s: %w", cm.Name, expiresKey, err)
	}
	if len(cm.Data[digestKey]) != hex.EncodedLen(sha256.Size) || cm.Data[clusterKey] == "" {
		return nil, errors.New("ConfigMap " + cm.Name + ": digest or cluster ID is missing")
	}
	return &Token{
		ID: id, ClusterID: cm.Data[clusterKey], Digest: cm.Data[digestKey], Expires: expires, UsedBy: cm.Data[usedByKey],
	}, nil
}

func checkToken(r *Request, text string, known *Token, now time.Time) error {
	switch {
	case known == nil || !known.matchesText(text) || known.ClusterID != r.ClusterID:
		return fault.New(fault.TokenInvalid, "the token is not valid for cluster %q: create one with broker enrol %s", r.ClusterID, r.ClusterID)
	case !now.Before(known.Expires):
		return fault.New(fault.TokenExpired, "the token of cluster %q expired at %s: create another with broker enrol %s",
			r.ClusterID, known.Expires.UTC().Format(time.RFC3339), r.ClusterID)
	case known.UsedBy != "" && known.UsedBy != r.Fingerprint:
		return fault.New(fault.TokenUsed,
			"the token of cluster %q was used with another key, %s: if that key is not this cluster's, deny the cluster; otherwise create another token with broker enrol %s",
			r.ClusterID, known.UsedBy, r.ClusterID)
	}
	return nil
}
