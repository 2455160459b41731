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

// namespace is the namespace of the tests' requests and pods in every member.
const namespace = "e2e"

// Timeouts for a busy machine.
const (
	readyWithin  = 2 * time.Minute
	settleWithin = 3 * time.Minute
)

// shared are the clusters, which the tests use in turn. The first test installs what is missing.
var shared struct {
	once sync.Once
	env  *Environment
	err  error
}

// clustersOf returns the clusters without any reservation. After the test it removes everything and checks that
// nothing is left.
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
	ctx, cancel := context.WithTimeout(context.Background(), settleWithin) // the test's context has ended
	defer cancel()
	check(t, env.ReleaseAll(ctx, settleWithin, namespace))
	check(t, env.AwaitClean(ctx, settleWithin))
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// small returns amounts that fit twice into a node with two cores that also runs a control plane.
func small() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("400m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
}

// readyRequest requests resources in rome and waits for the virtual node.
func readyRequest(t *testing.T, env *Environment, name string) *agentv1alpha1.ResourceRequest {
	t.Helper()
	rome := env.Member("rome")
	r, err := rome.Request(t.Context(), namespace, name, small())
	check(t, err)
	check(t, rome.AwaitReady(t.Context(), r, readyWithin))
	return r
}
