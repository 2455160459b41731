package local

import (
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

var stage = e2etest.Stage[*Environment]{Boot: UpForTests, Ensured: []string{namespace}, Emptied: []string{namespace, byHandNamespace}}

func TestMain(m *testing.M) { os.Exit(stage.Run(m)) }

// playgroundOf returns the playground without any reservation. After the test it removes everything and checks that
// nothing is left.
func playgroundOf(t *testing.T) *Environment {
	t.Helper()
	return stage.Open(t)
}

func check(t *testing.T, err error) {
	t.Helper()
	e2etest.Check(t, err)
}

func refused(t *testing.T, err error) {
	t.Helper()
	e2etest.Refused(t, err)
}

func note(namespace, name string) *corev1.ConfigMap { return e2etest.Note(namespace, name) }

// withGPU returns amounts that fit only into berlin, twice.
func withGPU() corev1.ResourceList {
	list := small()
	list["nvidia.com/gpu"] = resource.MustParse("1")
	return list
}

// readyRequest requests resources in a cluster and waits for the virtual node.
func readyRequest(t *testing.T, c *e2e.Cluster, name string, resources corev1.ResourceList) (*agentv1alpha1.ResourceRequest, time.Duration) {
	t.Helper()
	began := time.Now()
	r, err := c.Request(t.Context(), namespace, name, resources)
	check(t, err)
	check(t, c.AwaitReady(t.Context(), r, readyWithin))
	return r, time.Since(began)
}

// run deploys two pods on a request's virtual node, in the request's namespace.
func run(t *testing.T, env *Environment, c *e2e.Cluster, r *agentv1alpha1.ResourceRequest) *e2e.Workload {
	t.Helper()
	w, err := env.Run(t.Context(), c, r)
	check(t, err)
	return w
}
