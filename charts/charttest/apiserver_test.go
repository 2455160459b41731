package charttest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// An API server with the CRDs of cert-manager, Gateway API and the Prometheus operator accepts every object of every set of
// values, with strict validation. It also stores every field as it was rendered. Otherwise Argo CD and Flux would show
// a difference that no sync removes.
func TestAPIServerAcceptsEverySetOfValues(t *testing.T) {
	plane := controlplanetest.Start(t)
	admin, err := client.New(plane.RESTConfig(), client.Options{})
	runtest.Check(t, err)
	createPrerequisites(t, admin)
	// Objects that are the same in several sets are created once.
	taken := map[string]bool{}
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for _, obj := range allObjects(rendered) {
			text, err := obj.MarshalJSON()
			runtest.Check(t, err)
			if taken[string(text)] {
				continue
			}
			drop := withAccount(t, admin, obj)
			stored := obj.DeepCopy()
			err = admin.Create(t.Context(), stored, client.DryRunAll,
				&client.CreateOptions{Raw: &metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}})
			if err == nil && obj.GetKind() != "Pod" { // nothing compares the pods of helm test
				for _, field := range rewritten("", obj.Object, stored.Object) {
					t.Errorf("%s: the API server stores another %s", identityOf(obj), field)
				}
			}
			if obj.GetKind() == "Namespace" && apierrors.IsAlreadyExists(err) {
				err = nil
			}
			if err != nil {
				t.Errorf("%s: %v", identityOf(obj), err)
			}
			drop()
			taken[string(text)] = true
		}
	})
}

// rewritten returns the fields of a rendered value that were stored differently. Fields that the API server adds are
// no differences.
func rewritten(path string, rendered, stored any) []string {
	var out []string
	switch r := rendered.(type) {
	case map[string]any:
		s, _ := stored.(map[string]any)
		for key, value := range r {
			if key == "stringData" {
				continue // stringData is only written: the API server does not return it
			}
			out = append(out, rewritten(path+"."+key, value, s[key])...)
		}
	case []any:
		s, _ := stored.([]any)
		if len(s) != len(r) {
			return []string{fmt.Sprintf("%s: %v, rendered %v", path, stored, rendered)}
		}
		for i := range r {
			out = append(out, rewritten(fmt.Sprintf("%s[%d]", path, i), r[i], s[i])...)
		}
	default:
		if rendered != nil && fmt.Sprint(rendered) != fmt.Sprint(stored) {
			out = append(out, fmt.Sprintf("%s: %v, rendered %v", path, stored, rendered))
		}
	}
	return out
}

// createPrerequisites creates what the charts require: CRDs of other projects, namespaces, and classes that values
// name.
func createPrerequisites(t *testing.T, admin client.Client) {
	t.Helper()
	modules, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/cert-manager/cert-manager", "sigs.k8s.io/gateway-api").Output()
	runtest.Check(t, err)
	certManager, gateway, _ := strings.Cut(strings.TrimSpace(string(modules)), "\n")
	var kinds []manifest.Object
	for _, pattern := range []string{filepath.Join(certManager, "deploy", "crds", "*.yaml"), filepath.Join(gateway, "config", "crd", "standard", "*_httproutes.yaml"), filepath.Join("testdata", "*.yaml")} {
		files, err := filepath.Glob(pattern)
		runtest.Check(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			runtest.Check(t, err)
			objects, err := manifest.Read(text)
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			kinds = append(kinds, objects...)
		}
	}
	if len(kinds) < 9 {
		t.Fatalf("%d kinds of cert-manager, Gateway API and the Prometheus operator, want 9", len(kinds))
	}
	runtest.Check(t, manifest.Install(t.Context(), admin, kinds))
	// In an installation, the broker's chart creates the last two, for mailboxes.
	for _, name := range []string{namespace, "liqo", "liqo-system", "mailbox-paris", "mailbox-rome"} {
		runtest.Check(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
	runtest.Check(t, admin.Create(t.Context(), class))
}

// withAccount creates the ServiceAccount that a pod needs to be accepted, and returns a function that deletes it.
func withAccount(t *testing.T, admin client.Client, obj *unstructured.Unstructured) (drop func()) {
	t.Helper()
	if obj.GetKind() != "Pod" {
		return func() {}
	}
	name := typed[*corev1.Pod](t, obj).Spec.ServiceAccountName
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	runtest.Check(t, admin.Create(t.Context(), account))
	return func() {
		runtest.Check(t, admin.Delete(t.Context(), account))
	}
}
