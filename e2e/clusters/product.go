package clusters

import (
	"context"
	"fmt"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// Namespace of broker and agents.
const Namespace = "liqo-resource-broker"

// Releases, and the names that their objects begin with.
const (
	BrokerRelease = "broker"
	AgentRelease  = "agent"
	brokerName    = BrokerRelease + "-liqo-resource-broker"
	agentName     = AgentRelease + "-liqo-resource-broker-agent"
)

// Ports of the broker on its cluster's nodes.
const (
	restPort      = 30443
	enrolmentPort = 30444
)

// InstallBroker installs the broker or upgrades it.
func (e *Environment) InstallBroker(ctx context.Context, v Version, more values) error {
	agents := []any{}
	for id := range e.Members {
		agents = append(agents, values{"clusterID": id})
	}
	broker := e.Cluster(BrokerCluster)
	set := values{
		"image":        e.settings.image("broker", v),
		"service":      values{"type": "NodePort", "nodePorts": values{"rest": restPort, "enrolment": enrolmentPort}},
		"publicURL":    fmt.Sprintf("https://%s:%d", broker.Address, restPort),
		"enrolmentURL": fmt.Sprintf("https://%s:%d", broker.Address, enrolmentPort),
		"certificates": values{"agents": agents},
	}
	for key, value := range more {
		set[key] = value
	}
	return broker.install(ctx, BrokerRelease, filepath.Join(v.Charts, "broker"), Namespace, set)
}

// InstallAgent installs a member's agent or upgrades it.
func (e *Environment) InstallAgent(ctx context.Context, id string, v Version, more values) error {
	member := e.Cluster(id)
	if err := e.carryIdentity(ctx, member); err != nil {
		return fmt.Errorf("identity of %s: %w", id, err)
	}
	set := values{
		"image":    e.settings.image("agent", v),
		"cluster":  values{"id": id, "region": "europe", "endpointURL": member.endpoint()},
		"broker":   values{"urls": []any{fmt.Sprintf("https://%s:%d", e.Cluster(BrokerCluster).Address, restPort)}},
		"identity": values{"existingSecret": carriedSecret},
		// Where the broker's node port is.
		"networkPolicy": values{"brokerPorts": []any{restPort, enrolmentPort}},
	}
	for key, value := range more {
		set[key] = value
	}
	return member.install(ctx, AgentRelease, filepath.Join(v.Charts, "agent"), Namespace, set)
}

func (s *Settings) image(name string, v Version) values {
	image := values{"tag": v.Tag}
	if s.Repository != "" {
		image["registry"], image["repository"] = "", s.Repository+"/"+name
	}
	return image
}

// carriedSecret is where an agent finds the identity that was carried to it.
const carriedSecret = "carried-identity"

// carryIdentity takes the certificate that the broker's cluster issued for a member
// there, with the roots of both sides.
func (e *Environment) carryIdentity(ctx context.Context, member *Cluster) error {
	broker := e.Cluster(BrokerCluster)
	var issued, servers corev1.Secret
	for name, into := range map[string]*corev1.Secret{
		brokerName + "-agent-" + member.Name: &issued,
		brokerName + "-servers-ca":           &servers,
	} {
		if err := broker.awaitSecret(ctx, name, into); err != nil {
			return err
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := member.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	carried := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: carriedSecret},
		Data: map[string][]byte{
			"tls.crt": issued.Data["tls.crt"], "tls.key": issued.Data["tls.key"],
			"ca.crt": servers.Data["tls.crt"], "agents-ca.crt": issued.Data["ca.crt"],
		},
	}
	if err := member.Create(ctx, carried); apierrors.IsAlreadyExists(err) {
		return member.Update(ctx, carried)
	} else {
		return err
	}
}

func (c *Cluster) awaitSecret(ctx context.Context, name string, into *corev1.Secret) error {
	return e2e.Await(ctx, issuing, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, into)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("Secret %q in %s", name, c.Name), nil
		}
		return "", err
	})
}
