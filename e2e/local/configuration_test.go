package local

import (
	"context"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// TestBrokerConfigOfTheChart applies the chart's brokerConfig with an upgrade. An invalid one fails the upgrade with
// the reason.
func TestBrokerConfigOfTheChart(t *testing.T) {
	env := playgroundOf(t)
	values := env.Product.Values("broker")
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: brokerv1alpha1.BrokerConfigName}}
	t.Cleanup(func() {
		check(t, env.Product.Upgrade(context.Background(), "broker", values))
		check(t, client.IgnoreNotFound(env.Broker.Delete(context.Background(), config)))
	})
	upgrade := func(config map[string]any) error {
		changed := env.Product.Values("broker")
		changed["brokerConfig"] = config
		return env.Product.Upgrade(t.Context(), "broker", changed)
	}

	check(t, upgrade(map[string]any{"defaultTTL": "2h"}))
	check(t, env.Broker.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	if ttl := config.Spec.DefaultTTL; ttl == nil || ttl.Duration != 2*time.Hour {
		t.Errorf("defaultTTL is %v, want 2h", ttl)
	}

	err := upgrade(map[string]any{"defaultTTL": "2h", "maxDuration": "1h"})
	if want := "is longer than maxDuration"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want an error with %q", err, want)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "broker-configure"}}
	if err := env.Broker.Get(t.Context(), client.ObjectKeyFromObject(role), role); !apierrors.IsNotFound(err) {
		t.Errorf("the right to write the configuration outlives the hook: %v", err)
	}
	generation := config.Generation
	check(t, env.Broker.Get(t.Context(), client.ObjectKeyFromObject(config), config))
	if config.Generation != generation {
		t.Errorf("what was refused changed the BrokerConfig: %+v", config.Spec)
	}
}
