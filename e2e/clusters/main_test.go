//go:build clusters

package clusters

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

// namespace is where the tests' requests and pods live, in every member.
const namespace = "e2e"

// Deadlines for a machine that is busy with other things.
const (
	readyWithin  = 2 * time.Minute
	settleWithin = 3 * time.Minute
)

// shared are the clusters that all tests use, one after the other. What is missing in
// them is installed for the first test.
var shared struct {
	once sync.Once
	env  *Environment
	err  error
}

// clustersOf returns the clusters with nothing reserved. When the test is over
// everything is taken away again, and nothing may be left.
func clustersOf(t *testing.T) *Environment {
	t.Helper()
	settings, err := FromEnvironment(progress.Func(func(step string) { fmt.Fprintln(os.Stdout, "   ", step) }))
	check(t, err)
	shared.once.Do(func() {
		shared.env, shared.err = Up(context.Background(), settings)
	})
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	env := shared.env
	for _, c := range env.Members {
		check(t, env.EnsureNamespace(t.Context(), c, namespace))
	}
	settle(t, env)
	check(t, env.AwaitAdvertised(t.Context(), time.Minute))
	t.Cleanup(func() { settle(t, env) })
	return env
}

func settle(t *testing.T, env *Environment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin) // the test's own is over
	defer cancel()
	check(t, env.Settle(ctx, settleWithin, namespace))
	check(t, env.AwaitClean(ctx, settleWithin))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small fits twice into a node of two cores that also runs a control plane.
func small() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
}

// ready asks for resources in rome and waits for the virtual node.
func ready(t *testing.T, env *Environment, name string) *agentv1alpha1.ResourceRequest {
	t.Helper()
	rome := env.Member("rome")
	r, err := rome.Request(t.Context(), namespace, name, small())
	check(t, err)
	check(t, rome.AwaitReady(t.Context(), r, readyWithin))
	return r
}
