package clusters

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// identity returns the chart values with which a member's agent gets its identity. They are created once for each
// member, and stay the same when the agent is upgraded.
func (e *Environment) identity(ctx context.Context, member *Cluster) (values, error) {
	e.mu.Lock()
	known, ok := e.identities[member.Name]
	e.mu.Unlock()
	if ok {
		return known, nil
	}
	obtain := e.enrolment
	if member.Name == carriedTo {
		obtain = e.carry
	}
	v, err := obtain(ctx, member)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.identities[member.Name] = v
	return v, nil
}

// enrolment creates a token with "broker enrol", as an administrator would, and returns the values that this command
// prints.
func (e *Environment) enrolment(ctx context.Context, member *Cluster) (values, error) {
	printed, err := e.Cluster(BrokerCluster).Kubectl(ctx, "exec", "--namespace", Namespace, "deployment/"+brokerName, "--", "broker", "enrol", member.Name)
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(printed, "\ncluster:\n")
	if !found {
		return nil, fmt.Errorf("broker enrol printed no values: %s", printed)
	}
	v := values{}
	if err := yaml.Unmarshal([]byte("cluster:\n"+text), &v); err != nil {
		return nil, fmt.Errorf("values that broker enrol printed: %w", err)
	}
	delete(v, "cluster") // it contains more than the ID
	return v, nil
}

// carriedSecret is the name of the Secret with the identity that an administrator copied into the cluster.
const carriedSecret = "carried-identity"

// carry copies a member's certificate and the CA certificates of both sides from the broker's cluster into the member.
// It returns the chart values with which the agent uses them.
func (e *Environment) carry(ctx context.Context, member *Cluster) (values, error) {
	broker := e.Cluster(BrokerCluster)
	var issued, servers corev1.Secret
	for name, into := range map[string]*corev1.Secret{
		brokerName + "-agent-" + member.Name: &issued,
		brokerName + "-servers-ca":           &servers,
	} {
		if err := broker.awaitSecret(ctx, name, into); err != nil {
			return nil, err
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: Namespace}}
	if err := member.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return nil, err
	}
	carried := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: Namespace, Name: carriedSecret}}
	if err := client.IgnoreNotFound(member.Delete(ctx, carried)); err != nil {
		return nil, err
	}
	carried.Data = map[string][]byte{
		"tls.crt": issued.Data["tls.crt"], "tls.key": issued.Data["tls.key"],
		"ca.crt": servers.Data["tls.crt"], "agents-ca.crt": issued.Data["ca.crt"],
	}
	return values{
		"identity": values{"existingSecret": carriedSecret},
		"broker":   values{"urls": []any{e.brokerURL()}},
	}, member.Create(ctx, carried)
}

func (c *Cluster) awaitSecret(ctx context.Context, name string, into *corev1.Secret) error {
	return e2e.Await(ctx, issueTimeout, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Namespace: Namespace, Name: name}, into)
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("Secret %q in %s", name, c.Name), nil
		}
		return "", err
	})
}
