package attacks

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestProvidersDoNotChooseWhatTheyReceive has the provider write statuses that the consumer's Liqo copies, and waits until
// the copy is refused. The provider has removed its own policy against this, and stopped its Liqo and its agent, which
// would correct the statuses.
func TestProvidersDoNotChooseWhatTheyReceive(t *testing.T) {
	s := open(t)
	victim, home := s.attacker, s.attacker.home
	secret := secretIn(t, home, s.provider)
	s.dropPolicy(t, "-providers")
	s.stopAgent(t)
	s.pause(t, provider, "liqo-controller-manager")
	for name, attack := range map[string]struct {
		of             *unstructured.Unstructured
		status, former string
		// process is the name of that program of the consumer's Liqo which logs refusal.
		process, refusal string
		succeeded        func(ctx context.Context) bool
	}{
		"Secrets of a namespace that is not offloaded": {
			of:      victim.ownMap(t),
			status:  `{"currentMapping":{"kube-system":{"phase":"Accepted","remoteNamespace":"` + victim.landing + `"}}}`,
			former:  `{"currentMapping":{"kube-system":null}}`,
			process: replicator, refusal: "accepts namespace kube-system, which this cluster does not offload",
			succeeded: func(ctx context.Context) bool {
				return s.provider.Get(ctx, client.ObjectKey{Namespace: victim.landing, Name: secret.Name}, &corev1.Secret{}) == nil
			},
		},
		"pods and namespaces for another provider": {
			of:      victim.ownSlice(t),
			status:  `{"nodeLabels":{"liqo.io/remote-cluster-id":"berlin"}}`,
			former:  `{"nodeLabels":{"liqo.io/remote-cluster-id":null}}`,
			process: "liqo-controller-manager", refusal: "label liqo.io/remote-cluster-id of a virtual node must be " + provider,
			succeeded: func(ctx context.Context) bool {
				node := &corev1.Node{}
				return home.Get(ctx, client.ObjectKey{Name: victim.slice}, node) == nil && node.Labels["liqo.io/remote-cluster-id"] != provider
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			logged := s.logOf(t, victim.id, attack.process)
			before := logged()
			t.Cleanup(func() {
				check(t, s.provider.Status().Patch(context.Background(), attack.of.DeepCopy(), merge(`{"status":`+attack.former+`}`)))
			})
			check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) { // until the policy is gone
				return "", s.provider.Status().Patch(ctx, attack.of.DeepCopy(), merge(`{"status":`+attack.status+`}`))
			}))
			check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
				if attack.succeeded(ctx) {
					t.Error("the provider receives them")
					return "", nil
				}
				if strings.Contains(strings.TrimPrefix(logged(), before), attack.refusal) {
					return "", nil
				}
				return attack.process + " to be refused: " + attack.refusal, nil
			}))
		})
	}
}

// secretIn creates a Secret in a namespace that the consumer never offloads. If a namespace of the provider has a copy at
// the end of the test, the test fails.
func secretIn(t *testing.T, consumer, provider *e2e.Cluster) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: named(metav1.NamespaceSystem, unused("vault"))}
	check(t, client.IgnoreAlreadyExists(consumer.Create(t.Context(), secret)))
	t.Cleanup(func() {
		var all corev1.SecretList
		check(t, provider.List(context.Background(), &all))
		for _, found := range all.Items {
			if found.Name == secret.Name {
				t.Errorf("Secret %s of namespace %s is in namespace %s of %s", secret.Name, secret.Namespace, found.Namespace, provider.Name)
			}
		}
		check(t, consumer.Delete(context.Background(), secret))
	})
	return secret
}

// dropPolicy removes the binding of the provider's policy whose name ends with suffix until the test ends.
func (s *scene) dropPolicy(t *testing.T, suffix string) {
	t.Helper()
	var all admissionregistrationv1.ValidatingAdmissionPolicyBindingList
	check(t, s.provider.List(t.Context(), &all))
	i := slices.IndexFunc(all.Items, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
		return strings.HasSuffix(b.Name, suffix)
	})
	if i < 0 {
		t.Fatalf("%s has no policy binding whose name ends with %s", s.provider.Name, suffix)
	}
	binding := &all.Items[i]
	check(t, s.provider.Delete(t.Context(), binding))
	t.Cleanup(func() {
		binding.ResourceVersion = ""
		check(t, s.provider.Create(context.Background(), binding))
	})
}

// logOf returns a function that reads what a process of a cluster has logged.
func (s *scene) logOf(t *testing.T, cluster, process string) func() string {
	t.Helper()
	p, ok := s.env.Playground.Clusters[cluster].Processes().Process(process)
	if !ok {
		t.Fatalf("%s has no process %q", cluster, process)
	}
	return func() string {
		log, err := os.ReadFile(p.Log())
		check(t, err)
		return string(log)
	}
}
