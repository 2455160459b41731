// Package controlplanetest runs a Kubernetes API for a test.
package controlplanetest

import (
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Kill(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}
