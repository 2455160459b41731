package local

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// configure applies the BrokerConfig and removes it at the end of the test.
func configure(t *testing.T, env *Environment, spec brokerv1alpha1.BrokerConfigSpec) *brokerv1alpha1.BrokerConfig {
	t.Helper()
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: spec}
	check(t, env.Broker.Create(t.Context(), config))
	t.Cleanup(func() { check(t, env.Broker.DeleteAndWait(context.Background(), config, patience)) })
	return config
}

// TestWebhooksRefuseInvalidObjects checks that the API servers call the webhooks, which refuse
// invalid objects when they are written.
func TestWebhooksRefuseInvalidObjects(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	configure(t, env, brokerv1alpha1.BrokerConfigSpec{
		MaxPerReservation: brokerv1alpha1.ResourceBounds{corev1.ResourceCPU: resource.MustParse("2")},
		DeniedClusters:    []string{"nobody"},
	})
	limit := &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "requests"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: bounds.LimitType, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
		}}},
	}
	check(t, rome.Create(t.Context(), limit))
	t.Cleanup(func() { check(t, rome.Delete(context.Background(), limit)) })

	large := reservation("large", "rome")
	large.Spec.RequestedResources[corev1.ResourceCPU] = resource.MustParse("3")
	tests := map[string]struct {
		in      *e2e.Cluster
		object  client.Object
		message string
	}{
		"a Reservation above BrokerConfig's bounds": {in: env.Broker, object: large, message: "spec.requestedResources[cpu]"},
		"a Reservation of a denied cluster":         {in: env.Broker, object: reservation("denied", "nobody"), message: "spec.requesterID"},
		"a Reservation for another tenant": {
			in: newTenant(t, env), object: reservation("impersonated", "rome"), message: "impersonate-requester",
		},
		"a ResourceRequest above its namespace's bounds": {in: rome, message: "spec.cpu", object: &agentv1alpha1.ResourceRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "large"},
			Spec:       agentv1alpha1.ResourceRequestSpec{CPU: new(resource.MustParse("2")), Memory: new(resource.MustParse("1Gi"))},
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			// The configuration may not have reached the webhook yet.
			check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
				err := test.in.Create(ctx, test.object, client.DryRunAll)
				switch {
				case err == nil:
					return "it to be refused", nil
				case strings.Contains(err.Error(), "admission webhook") && strings.Contains(err.Error(), test.message):
					return "", nil
				default:
					return "", err
				}
			}))
		})
	}
}

// newTenant returns a client that may only create Reservations, like a member of a tenant.
func newTenant(t *testing.T, env *Environment) *e2e.Cluster {
	t.Helper()
	config := rest.CopyConfig(env.Broker.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "someone", Groups: []string{"tenants"}}
	binding := tenantBinding()
	check(t, env.Broker.Create(t.Context(), binding))
	t.Cleanup(func() { check(t, env.Broker.Delete(context.Background(), binding)) })
	c, err := e2e.NewCluster("broker as someone", config, "")
	check(t, err)
	return c
}

// TestDeniedClusterIsCutOff checks that a denied cluster is cut off, also on its open connections.
func TestDeniedClusterIsCutOff(t *testing.T) {
	env := playgroundOf(t)
	tr := asCluster(t, env, "berlin")
	_, err := tr.Ping(t.Context())
	check(t, err)

	config := configure(t, env, brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"berlin"}})
	began := time.Now()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		if _, err := tr.Ping(ctx); fault.ReasonOf(err) != fault.ClusterDenied {
			return "berlin to be refused", err
		}
		return "", nil
	}))
	t.Logf("refused %.0f ms after it was denied", time.Since(began).Seconds()*1000)
	if _, err := asCluster(t, env, "rome").Ping(t.Context()); err != nil {
		t.Errorf("rome is refused as well: %v", err)
	}

	allowed := config.DeepCopy()
	allowed.Spec.DeniedClusters = nil
	check(t, env.Broker.Patch(t.Context(), allowed, client.MergeFrom(config)))
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		_, err := tr.Ping(ctx)
		return "", err
	}))
	check(t, env.AwaitAdvertised(t.Context(), patience))
}

// tenantBinding grants newTenant the rights of a tenant.
func tenantBinding() *rbacv1.ClusterRoleBinding {
	return &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "e2e-someone"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "broker-tenant"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: "someone"}},
	}
}
