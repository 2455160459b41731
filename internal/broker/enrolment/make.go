package enrolment

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// Made is a newly created token, with its text for the person who installs the agent.
type Made struct {
	Token
	// Text is the token as it must be given to the agent. It is not stored anywhere.
	Text string
	// Approved is false if the BrokerConfig admits only approved clusters and this one is
	// not among them. Then the cluster needs an approval besides the token.
	Approved bool
}

// MakeToken creates a token for a cluster, and stores its hash in the broker's namespace.
func MakeToken(ctx context.Context, c client.Client, namespace, clusterID string, now time.Time) (*Made, error) {
	if !pki.ValidClusterID(clusterID) {
		return nil, fmt.Errorf("cluster ID %q: want a lower-case DNS label of at most %d characters, as in the installation of Liqo", clusterID, pki.MaxClusterIDLength)
	}
	config := &brokerv1alpha1.BrokerConfig{}
	err := c.Get(ctx, client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config)
	if client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	outside := access.PolicyOf(&config.Spec).Check(clusterID)
	if fault.ReasonOf(outside) == fault.ClusterDenied {
		return nil, outside
	}
	token, text := NewToken(clusterID, now)
	if err := c.Create(ctx, token.toConfigMap(namespace)); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("namespace %q: %w", namespace, err)
		}
		return nil, fmt.Errorf("storing the token's hash: %w", err)
	}
	return &Made{Token: token, Text: text, Approved: outside == nil}, nil
}
