package checkup

import (
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestChecksOnAPIServer(t *testing.T) {
	plane := controlplanetest.Start(t)
	published, err := discovery.NewDiscoveryClientForConfig(plane.RESTConfig())
	runtest.Check(t, err)
	c, err := client.New(plane.RESTConfig(), client.Options{})
	runtest.Check(t, err)
	scheme := runtime.NewScheme()
	runtest.Check(t, brokerv1alpha1.AddToScheme(scheme))
	crds := CRDs(published, brokerv1alpha1.GroupVersion, "install them", scheme)
	want := func(t *testing.T, check Check, level Level, says string) {
		t.Helper()
		if got := check.Look(t.Context()); got.Level != level || !strings.Contains(got.Message, says) {
			t.Errorf("got %+v, want %s and %q", got, level, says)
		}
	}

	want(t, APIServer(published), OK, "Kubernetes v1.")
	want(t, crds, Failed, "broker.fluidos.eu/v1alpha1 is not installed")
	want(t, Certificates(c, "default"), Skipped, "cert-manager is not installed")

	objects, err := manifest.ReadFS(charts.Broker(), "files/crds")
	runtest.Check(t, err)
	t.Run("CRDs of an older version", func(t *testing.T) {
		var older []*unstructured.Unstructured
		for _, crd := range objects {
			older = append(older, crd.DeepCopy())
		}
		dropField(t, older, "Reservation", "status", "placements", "items", "reason")
		dropField(t, older, "BrokerConfig", "spec", "approvedClusters")
		older = slices.DeleteFunc(older, func(o *unstructured.Unstructured) bool {
			return strings.HasPrefix(o.GetName(), "clusteradvertisements")
		})
		runtest.Check(t, manifest.Install(t.Context(), c, older))
		awaitFinding(t, crds, "BrokerConfig has no field spec.approvedClusters; ClusterAdvertisement is not installed; Reservation has no field status.placements.reason")
	})
	t.Run("CRDs of this version", func(t *testing.T) {
		runtest.Check(t, manifest.Install(t.Context(), c, objects))
		awaitFinding(t, crds, "BrokerConfig, ClusterAdvertisement, ClusterMailbox, Reservation match this version")
	})
	t.Run("webhooks", func(t *testing.T) { testWebhooks(t, c, want) })
}

// dropField removes a field of a CRD from its schema.
func dropField(t *testing.T, crds []*unstructured.Unstructured, kind string, path ...string) {
	t.Helper()
	for _, crd := range crds {
		if name, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind"); name != kind {
			continue
		}
		version := crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)
		at := version["schema"].(map[string]any)["openAPIV3Schema"].(map[string]any)
		for _, step := range path[:len(path)-1] {
			if step == "items" {
				at = at["items"].(map[string]any)
				continue
			}
			at = at["properties"].(map[string]any)[step].(map[string]any)
		}
		delete(at["properties"].(map[string]any), path[len(path)-1])
		return
	}
	t.Fatalf("no CRD of kind %q", kind)
}

// awaitFinding repeats a check until its finding has the message says, because the API server
// publishes changed CRDs with a delay.
func awaitFinding(t *testing.T, check Check, says string) {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		got := check.Look(t.Context())
		if got.Message == says {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %+v, want %q", got, says)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func testWebhooks(t *testing.T, c client.Client, want func(*testing.T, Check, Level, string)) {
	for name, test := range map[string]struct {
		bundle []byte
		level  Level
		says   string
	}{
		"without": {level: Failed, says: "has no CA bundle"},
		"trusted": {bundle: pkitest.New(t, "servers", time.Now()).CertPEM(), level: OK, says: "1 have a CA bundle"},
	} {
		runtest.Check(t, c.Create(t.Context(), webhookConfiguration(name, test.bundle)))
		want(t, Webhooks(c, name), test.level, test.says)
	}
	want(t, Webhooks(c, "unknown"), Warning, "is missing")
	want(t, Webhooks(c, ""), Skipped, "--name")
}

func webhookConfiguration(name string, bundle []byte) client.Object {
	none := admissionregistrationv1.SideEffectClassNone
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "reservation.broker.fluidos.eu", SideEffects: &none, AdmissionReviewVersions: []string{"v1"},
			ClientConfig: admissionregistrationv1.WebhookClientConfig{
				CABundle: bundle, Service: &admissionregistrationv1.ServiceReference{Namespace: "default", Name: "webhook"},
			},
		}},
	}
}
