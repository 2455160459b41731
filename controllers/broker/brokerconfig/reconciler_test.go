package brokerconfig

import (
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func denyingSpec(clusterID string) *brokerv1alpha1.BrokerConfigSpec {
	return &brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{clusterID}}
}

// invalidSpec returns a configuration that passes the CEL rules but not specs.ReadConfig, and that denies a cluster.
func invalidSpec(clusterID string) *brokerv1alpha1.BrokerConfigSpec {
	spec := denyingSpec(clusterID)
	spec.DefaultTTL, spec.MaxDuration = &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: time.Minute}
	return spec
}

// A broker that has no configuration yet refuses every cluster. Afterwards the last valid configuration decides.
func TestLastValidAccessListsApplyWhileTheConfigurationChanges(t *testing.T) {
	const refused, admitted, unknown = fault.ClusterDenied, fault.Reason(""), fault.Unavailable
	cases := map[string]struct {
		// specs are applied in order; nil stands for no BrokerConfig.
		specs       []*brokerv1alpha1.BrokerConfigSpec
		rome, paris fault.Reason
	}{
		"nothing is read yet":                               {rome: unknown, paris: unknown},
		"there is no BrokerConfig":                          {specs: []*brokerv1alpha1.BrokerConfigSpec{nil}, rome: admitted, paris: admitted},
		"rome is denied":                                    {specs: []*brokerv1alpha1.BrokerConfigSpec{denyingSpec("rome")}, rome: refused, paris: admitted},
		"paris is denied instead of rome":                   {specs: []*brokerv1alpha1.BrokerConfigSpec{denyingSpec("rome"), denyingSpec("paris")}, rome: admitted, paris: refused},
		"the BrokerConfig is deleted":                       {specs: []*brokerv1alpha1.BrokerConfigSpec{denyingSpec("rome"), nil}, rome: admitted, paris: admitted},
		"an invalid change keeps the previous lists":        {specs: []*brokerv1alpha1.BrokerConfigSpec{denyingSpec("rome"), invalidSpec("paris")}, rome: refused, paris: admitted},
		"the lists of an invalid first configuration apply": {specs: []*brokerv1alpha1.BrokerConfigSpec{invalidSpec("rome")}, rome: refused, paris: admitted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := broker.New(broker.Options{Log: logr.Discard(), Now: time.Now})
			for _, spec := range tc.specs {
				reconcileSpec(t, b, spec)
			}
			for id, want := range map[string]fault.Reason{"rome": tc.rome, "paris": tc.paris} {
				if err := b.Access().Check(id); fault.ReasonOf(err) != want {
					t.Errorf("%s: %v, want reason %q", id, err, want)
				}
			}
		})
	}
}

func reconcileSpec(t *testing.T, b *broker.Broker, spec *brokerv1alpha1.BrokerConfigSpec) {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, brokerv1alpha1.AddToScheme(scheme))
	key := client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}
	objects := fake.NewClientBuilder().WithScheme(scheme)
	if spec != nil {
		objects.WithObjects(&brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Spec: *spec})
	}
	r := &Reconciler{client: objects.Build(), broker: b, outbox: outbox.New(outbox.Options{Position: b.Position, Now: time.Now})}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
}

func TestClusterInBothListsIsReported(t *testing.T) {
	spec := denyingSpec("rome")
	if got := describeContradictions(access.PolicyOf(spec)); got != "" {
		t.Errorf("without a contradiction: %q", got)
	}
	spec.ApprovedClusters = []brokerv1alpha1.ApprovedCluster{{ClusterID: "rome"}}
	if got, want := describeContradictions(access.PolicyOf(spec)), `; approvedClusters and deniedClusters both have ["rome"]: denied wins`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
