package product

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
)

// credentialValues returns the chart values for a member's agent. They contain what the agent needs to obtain a
// certificate.
func (p *Product) credentialValues(ctx context.Context, m Member) (map[string]any, error) {
	values := agentValues(m)
	if m.Carried {
		url, err := p.URL()
		if err != nil {
			return nil, err
		}
		values["broker"] = map[string]any{"urls": []any{url}}
		values["identity"] = map[string]any{"existingSecret": Carried}
		return values, p.Carry(ctx, m.Name())
	}
	enrolled, err := isEnrolled(ctx, m)
	if err != nil {
		return nil, err
	}
	if enrolled {
		// The member used its token when it enrolled, and a token can be used only once. Therefore the enrolment
		// values of the last installation are used again.
		last, err := p.releases[m.Name()].Values()
		values["enrolment"] = last["enrolment"]
		return values, err
	}
	values["enrolment"], err = p.Enrol(ctx, m.Name())
	return values, err
}

// isEnrolled reports whether a member's agent has a certificate that it can renew. A certificate that expired
// while the playground was stopped cannot be renewed.
func isEnrolled(ctx context.Context, m Member) (bool, error) {
	c, err := client.New(m.RESTConfig(), client.Options{})
	if err != nil {
		return false, err
	}
	secret := &corev1.Secret{}
	err = c.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: agentName + "-identity"}, secret)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && isValid(secret), err
}

// isValid reports whether a Secret holds a certificate that has not expired.
func isValid(secret *corev1.Secret) bool {
	certificates, err := cert.ParseCertsPEM(secret.Data[corev1.TLSCertKey])
	return err == nil && time.Now().Before(certificates[0].NotAfter)
}

// Enrol returns the chart values with which a cluster enrols. It asks one of the broker's pods.
func (p *Product) Enrol(ctx context.Context, clusterID string) (map[string]any, error) {
	pods := p.Pods(brokerName)
	if len(pods) == 0 {
		return nil, errors.New("no broker runs")
	}
	return Enrol(ctx, pods[0], clusterID)
}

// Enrol runs "broker enrol" in a pod of the broker. It returns the values that the command prints for the
// agent's chart.
func Enrol(ctx context.Context, broker *release.Pod, clusterID string) (map[string]any, error) {
	said, err := broker.Exec(ctx, "enrol", clusterID)
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(said, "\ncluster:\n")
	var printed struct {
		Enrolment map[string]any `json:"enrolment"`
	}
	if err := yaml.Unmarshal([]byte("cluster:\n"+text), &printed); !found || err != nil || len(printed.Enrolment) == 0 {
		return nil, errors.Join(fmt.Errorf("\"broker enrol %s\" printed no values:\n%s", clusterID, said), err)
	}
	return printed.Enrolment, nil
}
