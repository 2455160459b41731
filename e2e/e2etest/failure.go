package e2etest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// errorsOf holds the first error with which Check stopped each test, by the name of the test.
var errorsOf sync.Map

func noteError(t testing.TB, err error) { errorsOf.LoadOrStore(t.Name(), err) }

// showFailure repeats why a test failed, below all logs, because reports of CI often show only the end of the output.
// state is the state of the clusters when the test failed.
func (s *Stage[E]) showFailure(t *testing.T, state string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	why, known := errorsOf.Load(t.Name())
	if !known {
		why = "see its messages above"
	}
	summary := fmt.Sprintf("FAILED %s: %v", t.Name(), why)
	s.failures = append(s.failures, summary)
	t.Logf("%s%s", state, summary)
}

// described are the kinds of objects whose state explains most failures.
var described = []schema.GroupVersionKind{
	{Group: "liqo.io", Version: "v1alpha1", Kind: "ResourceRequest"},
	{Group: "liqo.io", Version: "v1alpha1", Kind: "ReservationInstruction"},
	{Group: "liqo.io", Version: "v1alpha1", Kind: "ProviderInstruction"},
	{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSlice"},
}

var reservations = schema.GroupVersionKind{Group: "broker.fluidos.eu", Version: "v1alpha1", Kind: "Reservation"}

// describeState returns one line for each reservation, and for each object of its peering.
func describeState(clusters *e2e.Environment) string {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	var out strings.Builder
	out.WriteString("state when the test failed:\n")
	describeObjects(ctx, &out, clusters.Broker, reservations)
	for _, c := range clusters.Members {
		for _, kind := range described {
			describeObjects(ctx, &out, c, kind)
		}
	}
	return out.String()
}

func describeObjects(ctx context.Context, out *strings.Builder, c *e2e.Cluster, kind schema.GroupVersionKind) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	if err := c.List(ctx, list); err != nil {
		fmt.Fprintf(out, "%s: listing %s objects: %v\n", c.Name, kind.Kind, err)
		return
	}
	for i := range list.Items {
		fmt.Fprintf(out, "%s: %s\n", c.Name, describeObject(&list.Items[i]))
	}
}

// describeObject returns the object's phase, message and unmet conditions in one line of limited length.
func describeObject(obj *unstructured.Unstructured) string {
	const width = 500
	var line strings.Builder
	phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase")
	message, _, _ := unstructured.NestedString(obj.Object, "status", "message")
	fmt.Fprintf(&line, "%s %s/%s %s %s", obj.GetKind(), obj.GetNamespace(), obj.GetName(), phase, message)
	if obj.GetDeletionTimestamp() != nil {
		fmt.Fprintf(&line, ", being deleted, kept by %v", obj.GetFinalizers())
	}
	if resources, found, _ := unstructured.NestedMap(obj.Object, "spec", "resources"); found {
		fmt.Fprintf(&line, ", wants %v", resources)
	}
	conditions, _, _ := unstructured.NestedSlice(obj.Object, "status", "conditions")
	for _, entry := range conditions {
		if c, ok := entry.(map[string]any); ok && c["status"] != "True" && c["status"] != "Accepted" {
			fmt.Fprintf(&line, ", %v=%v: %v", c["type"], c["status"], c["message"])
		}
	}
	text := line.String()
	return text[:min(len(text), width)]
}
