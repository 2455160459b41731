package gitops

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/argocd"
)

// Names of the Applications that the manifests make.
const (
	rootApp     = "liqo-resource-broker-root"
	brokerApp   = "liqo-resource-broker"
	agentApp    = "liqo-resource-broker-agent-" // and the member's name
	requestsApp = "requests-rome"
)

// application is the status of an Application.
type application struct {
	Name       string
	Sync       string
	Health     string
	Conditions []string
	// Syncing is true while a sync waits or runs.
	Syncing bool
	// Operation is the phase of the last sync and when it finished.
	Operation string
	// OutOfSync lists the objects that differ from Git.
	OutOfSync []string
}

func (a *application) String() string {
	return fmt.Sprintf("%s is %s, %s, last sync %s, conditions %q, objects %q", a.Name, a.Sync, a.Health, a.Operation, a.Conditions, a.OutOfSync)
}

// isSettled reports whether an Application is Synced and Healthy, without a sync that waits, runs or has failed. A busy
// Argo CD may leave the phase of a finished sync at Running.
func (a *application) isSettled() bool {
	failed := strings.HasPrefix(a.Operation, "Failed") || strings.HasPrefix(a.Operation, "Error")
	return a.Sync == "Synced" && a.Health == "Healthy" && len(a.Conditions) == 0 && !a.Syncing && !failed
}

func applicationKind(suffix string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Application" + suffix}
}

// applications returns all Applications by name.
func (s *site) applications(ctx context.Context) (map[string]*application, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(applicationKind("List"))
	if err := s.Broker.List(ctx, list, client.InNamespace(argocd.Namespace)); err != nil {
		return nil, err
	}
	out := map[string]*application{}
	for i := range list.Items {
		out[list.Items[i].GetName()] = statusOf(list.Items[i].Object)
	}
	return out, nil
}

// statusOf reads the status of an Application.
func statusOf(object map[string]any) *application {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(object, fields...) // absent fields are empty
		return value
	}
	list := func(fields ...string) []map[string]any {
		values, _, _ := unstructured.NestedSlice(object, fields...)
		var out []map[string]any
		for _, value := range values {
			out = append(out, value.(map[string]any))
		}
		return out
	}
	a := &application{
		Name: text("metadata", "name"), Sync: text("status", "sync", "status"), Health: text("status", "health", "status"),
		Syncing:   object["operation"] != nil,
		Operation: strings.TrimSpace(text("status", "operationState", "phase") + " " + text("status", "operationState", "finishedAt")),
	}
	if a.Operation != "" && !strings.HasPrefix(a.Operation, "Succeeded") {
		a.Operation += ": " + text("status", "operationState", "message")
	}
	for _, c := range list("status", "conditions") {
		a.Conditions = append(a.Conditions, fmt.Sprint(c["type"], ": ", c["message"]))
	}
	for _, r := range list("status", "resources") {
		if r["status"] != "Synced" {
			a.OutOfSync = append(a.OutOfSync, fmt.Sprint(r["kind"], " ", r["name"], " ", r["status"]))
		}
	}
	return a
}

// awaitSettled waits until exactly these Applications exist, all Synced and Healthy.
func (s *site) awaitSettled(t *testing.T, within time.Duration, names ...string) {
	t.Helper()
	e2etest.Check(t, e2e.Await(t.Context(), within, func(ctx context.Context) (string, error) {
		apps, err := s.applications(ctx)
		if err != nil {
			return "", err
		}
		var waiting []string
		for _, name := range names {
			if a, ok := apps[name]; !ok {
				waiting = append(waiting, name+" does not exist")
			} else if !a.isSettled() {
				waiting = append(waiting, a.String())
			}
		}
		for name := range apps {
			if !slices.Contains(names, name) {
				waiting = append(waiting, name+" exists")
			}
		}
		return strings.Join(waiting, "\n"), nil
	}))
}

// refreshHard makes Argo CD render and compare an Application again, without its caches, and waits until it has.
func (s *site) refreshHard(t *testing.T, name string) {
	t.Helper()
	app := &unstructured.Unstructured{}
	app.SetGroupVersionKind(applicationKind(""))
	app.SetNamespace(argocd.Namespace)
	app.SetName(name)
	const annotation = "argocd.argoproj.io/refresh"
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"hard"}}}`, annotation)
	e2etest.Check(t, s.Broker.Patch(t.Context(), app, client.RawPatch(types.MergePatchType, patch)))
	e2etest.Check(t, e2e.Await(t.Context(), time.Minute, func(ctx context.Context) (string, error) {
		if err := s.Broker.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
			return "", err
		}
		if app.GetAnnotations()[annotation] != "" {
			return "Argo CD to compare " + name, nil
		}
		return "", nil
	}))
}

// awaitHealth waits until an Application has the given health.
func (s *site) awaitHealth(t *testing.T, within time.Duration, name, health string) {
	t.Helper()
	e2etest.Check(t, e2e.Await(t.Context(), within, func(ctx context.Context) (string, error) {
		apps, err := s.applications(ctx)
		if err != nil {
			return "", err
		}
		if a, ok := apps[name]; !ok || a.Health != health {
			return fmt.Sprintf("%s to be %s: %v", name, health, a), nil
		}
		return "", nil
	}))
}

func (s *site) printApplications(t *testing.T) {
	t.Helper()
	apps, err := s.applications(context.Background()) // the test's context may have ended
	if err != nil {
		t.Log(err)
	}
	for _, a := range apps {
		t.Log(a)
	}
}
