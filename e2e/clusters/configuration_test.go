//go:build clusters

package clusters

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestBrokerConfigOfTheChart applies the chart's brokerConfig with an installation, an upgrade and a rollback. An
// invalid one fails the upgrade with the reason and changes nothing.
func TestBrokerConfigOfTheChart(t *testing.T) {
	env := clustersOf(t)
	broker, version := env.Cluster(BrokerCluster), env.settings.Version
	installed := brokerv1alpha1.BrokerConfigSpec{MaxPerReservation: brokerv1alpha1.ResourceBounds{corev1.ResourceCPU: resource.MustParse("64")}}
	awaitConfig(t, env, installed)
	before, err := broker.revision(t.Context(), BrokerRelease)
	check(t, err)
	t.Cleanup(func() { check(t, env.InstallBroker(context.Background(), version, nil)) })

	check(t, env.InstallBroker(t.Context(), version, values{"brokerConfig": values{"defaultTTL": "2h"}}))
	changed := brokerv1alpha1.BrokerConfigSpec{DefaultTTL: &metav1.Duration{Duration: 2 * time.Hour}}
	generation := awaitConfig(t, env, changed)

	for name, test := range map[string]struct {
		config values
		want   string
	}{
		"a violated rule of the CRD": {
			config: values{"scoringWeights": values{"cost": 10}},
			want:   "the weights must sum to 100",
		},
		"a refusal of the webhook": {
			config: values{"defaultTTL": "2h", "maxDuration": "1h"},
			want:   "spec.defaultTTL: Invalid value: \"2h0m0s\": is longer than maxDuration, 1h0m0s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := env.InstallBroker(t.Context(), version, values{"brokerConfig": test.config})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			t.Log(err)
			if now := awaitConfig(t, env, changed); now != generation {
				t.Errorf("the BrokerConfig was written: its generation was %d and is %d", generation, now)
			}
		})
	}

	check(t, broker.rollback(t.Context(), BrokerRelease, before))
	awaitConfig(t, env, installed)
}

// awaitConfig waits until the broker has applied a BrokerConfig, and returns its generation.
func awaitConfig(t *testing.T, env *Environment, want brokerv1alpha1.BrokerConfigSpec) int64 {
	t.Helper()
	config := &brokerv1alpha1.BrokerConfig{}
	check(t, e2e.Await(t.Context(), time.Minute, func(ctx context.Context) (string, error) {
		if err := env.Broker.Get(ctx, client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config); err != nil {
			return "", err
		}
		if diff := cmp.Diff(want, config.Spec); diff != "" {
			return "the BrokerConfig to be (-want +got):\n" + diff, nil
		}
		ready := meta.FindStatusCondition(config.Status.Conditions, brokerv1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != config.Generation {
			return "the broker to use the BrokerConfig", nil
		}
		return "", nil
	}))
	return config.Generation
}
