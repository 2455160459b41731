// Package controlplanetest runs a Kubernetes API for a test.
package controlplanetest

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Start boots etcd and an API server in a temporary folder of the test, and stops them when the test ends. Each
// function in change may change the options, for example to add nodes.
//
// Without kube-controller-manager, deleted namespaces never disappear. Therefore use a new namespace for each test.
func Start(t testing.TB, change ...func(*controlplane.Options)) *controlplane.ControlPlane {
	t.Helper()
	options := controlplane.Options{
		Dir: t.TempDir(), Name: "test",
		Progress: progress.Func(func(step string) { t.Log(step) }),
	}
	for _, f := range change {
		f(&options)
	}
	cluster, err := controlplane.Start(t.Context(), options)
	runtest.Check(t, err)
	t.Cleanup(func() {
		if err := cluster.Kill(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// InstallAgent installs what render returns of the agent's chart, waits for its policies, and returns a kubeconfig with exactly the rights of
// the agent. render is, for example, chart.AgentForProcess. It also creates more namespaces.
func InstallAgent(
	t testing.TB, plane *controlplane.ControlPlane, admin client.Client,
	render func(name, namespace string) ([]manifest.Object, error), more ...string,
) (kubeconfig string) {
	t.Helper()
	const namespace, name = "liqo-resource-broker", "liqo-resource-broker-agent"
	for _, created := range append(more, "liqo", namespace) {
		runtest.Check(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: created}}))
	}
	objects, err := render(name, namespace)
	runtest.Check(t, err)
	runtest.Check(t, manifest.Install(t.Context(), admin, objects))
	AwaitPolicies(t, admin)
	kubeconfig, err = plane.ServiceAccountKubeconfig(t.Context(), namespace, name)
	runtest.Check(t, err)
	return kubeconfig
}
