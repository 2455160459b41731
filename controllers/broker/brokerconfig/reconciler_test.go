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
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

func denies(clusterID string) *brokerv1alpha1.BrokerConfigSpec {
	return &brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{clusterID}}
}

// invalid denies a cluster in a configuration that CEL lets pass and ConfigOf does not.
func invalid(clusterID string) *brokerv1alpha1.BrokerConfigSpec {
	spec := denies(clusterID)
	spec.DefaultTTL, spec.MaxDuration = &metav1.Duration{Duration: time.Hour}, &metav1.Duration{Duration: time.Minute}
	return spec
}

// However the configuration changes, whom the broker refuses is what it last applied
// whole; and before there was any, it refuses everyone.
func TestWhoIsRefusedWhileTheConfigurationChanges(t *testing.T) {
	const refused, admitted, unknown = fault.ClusterDenied, fault.Reason(""), fault.Unavailable
	cases := map[string]struct {
		// specs are applied one after the other; nil is no BrokerConfig.
		specs       []*brokerv1alpha1.BrokerConfigSpec
		rome, paris fault.Reason
	}{
		"before it was read":                             {rome: unknown, paris: unknown},
		"there is none":                                  {specs: []*brokerv1alpha1.BrokerConfigSpec{nil}, rome: admitted, paris: admitted},
		"it denies one":                                  {specs: []*brokerv1alpha1.BrokerConfigSpec{denies("rome")}, rome: refused, paris: admitted},
		"it denies another instead":                      {specs: []*brokerv1alpha1.BrokerConfigSpec{denies("rome"), denies("paris")}, rome: admitted, paris: refused},
		"it is deleted":                                  {specs: []*brokerv1alpha1.BrokerConfigSpec{denies("rome"), nil}, rome: admitted, paris: admitted},
		"it becomes invalid: the former one holds":       {specs: []*brokerv1alpha1.BrokerConfigSpec{denies("rome"), invalid("paris")}, rome: refused, paris: admitted},
		"it is invalid from the beginning: its lists do": {specs: []*brokerv1alpha1.BrokerConfigSpec{invalid("rome")}, rome: refused, paris: admitted},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := broker.New(broker.Options{Log: logr.Discard(), Now: time.Now})
			for _, spec := range tc.specs {
				apply(t, b, spec)
			}
			for id, want := range map[string]fault.Reason{"rome": tc.rome, "paris": tc.paris} {
				if err := b.Access().Check(id); fault.ReasonOf(err) != want {
					t.Errorf("%s: %v, want reason %q", id, err, want)
				}
			}
		})
	}
}

func apply(t *testing.T, b *broker.Broker, spec *brokerv1alpha1.BrokerConfigSpec) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := brokerv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}
	objects := fake.NewClientBuilder().WithScheme(scheme)
	if spec != nil {
		objects.WithObjects(&brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: key.Name}, Spec: *spec})
	}
	r := &Reconciler{client: objects.Build(), broker: b}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
}

func TestContradictionsAreTold(t *testing.T) {
	spec := denies("rome")
	if got := contradictions(access.PolicyOf(spec)); got != "" {
		t.Errorf("without a contradiction: %q", got)
	}
	spec.ApprovedClusters = []brokerv1alpha1.ApprovedCluster{{ClusterID: "rome"}}
	if got, want := contradictions(access.PolicyOf(spec)), `; approvedClusters and deniedClusters both have ["rome"]: denied wins`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
