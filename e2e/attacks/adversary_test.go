package attacks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

// Environment variables that configure the adversary.
const (
	// forVariable sets how long the adversary runs, 30s if unset.
	forVariable = "LRB_ADVERSARY"
	// seedVariable sets the random seed. Every run logs its seed, so that a failed run can be
	// repeated.
	seedVariable = "LRB_SEED"
)

// adversary performs random operations that Liqo's roles allow a consumer.
type adversary struct {
	c      *tenant
	second string // a further namespace of the adversary at the provider
	taken  atomic.Int64
	tried  atomic.Int64
}

// TestRandomAdversaryStaysWithinItsGrant performs thousands of random consumer operations in
// parallel. Invariant E1 must hold throughout, the neighbouring consumer must not be disturbed, and
// the attacker's own honest workload must run afterwards.
func TestRandomAdversaryStaysWithinItsGrant(t *testing.T) {
	s := openWith(t, openEmpty(t), provider, "rome", "berlin")
	t.Cleanup(func() { s.verify(t) })
	lasts, seed := 30*time.Second, uint64(time.Now().UnixNano())
	if text := os.Getenv(forVariable); text != "" {
		var err error
		lasts, err = time.ParseDuration(text)
		check(t, err)
	}
	if text := os.Getenv(seedVariable); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		check(t, err)
	}
	t.Logf("%s=%d repeats these operations", seedVariable, seed)
	s.pause(t, "rome", replicator)
	a := &adversary{c: s.attacker, second: s.secondLandingUnpaused(t)}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	together(6, func(i int) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for ctx.Err() == nil {
			a.act(ctx, r)
		}
	})
	t.Logf("%d operations, %d of them taken", a.tried.Load(), a.taken.Load())
	if a.taken.Load() < 100 {
		t.Errorf("only %d of %d operations were taken: this attacks nothing", a.taken.Load(), a.tried.Load())
	}
	s.observer.verify(t)
	s.removeAll(t, s.attacker)
	s.removeIn(t, a.second)
	s.liveHonestly(t, s.neighbour)
}

// secondLandingUnpaused maps a further namespace of rome at the provider and returns its name
// there. The test maps it itself, because rome's replicator is paused.
func (s *scene) secondLandingUnpaused(t *testing.T) string {
	t.Helper()
	const landing = "adversary-rome"
	m := s.attacker.ownMap(t)
	_ = s.attacker.plane.Patch(t.Context(), e2e.Object(e2e.NamespaceMapKind, s.attacker.office, m.GetName()),
		merge(`{"spec":{"desiredMapping":{"adversary":"`+landing+`"}}}`))
	return landing
}

// act performs one random operation.
func (a *adversary) act(ctx context.Context, r *rand.Rand) {
	actions := []func(context.Context, *rand.Rand) error{a.create, a.create, a.create, a.remove, a.remove, a.remove, a.update, a.burst, a.slice, a.mapping}
	a.tried.Add(1)
	if actions[r.IntN(len(actions))](ctx, r) == nil {
		a.taken.Add(1)
	}
}

// target returns one of a few ShadowPods, so that operations hit the same object. The names change
// over time, because Liqo rejects the name of a deleted ShadowPod for minutes.
func (a *adversary) target(r *rand.Rand) *unstructured.Unstructured {
	landing := a.c.landing
	if r.IntN(4) == 0 {
		landing = a.second
	}
	return e2etest.ShadowPod(a.c.id, a.c.slice, landing, nameOf("random", int(a.tried.Load()/100)+r.IntN(12)))
}

func (a *adversary) create(ctx context.Context, r *rand.Rand) error {
	shadow := a.target(r)
	randomize(podOf(shadow), r)
	switch r.IntN(12) {
	case 0:
		shadow.SetFinalizers([]string{heldBy})
	case 1:
		shadow.SetLabels(map[string]string{"offloading.liqo.io/origin": a.c.id, "offloading.liqo.io/nodename": "res-other00000-1"})
	}
	return a.c.kubelet.Create(ctx, shadow)
}

// cpus are CPU requests that a quota could misjudge.
var cpus = []string{"1m", "100m", "100m", "250m", "450m", "499m", "500m", "501m", "1", "0", "-1", "-100m", "0.1", "1e-3", "100e-3", "999999999n", "1e3"}

// memories are memory requests that a quota could misjudge.
var memories = []string{"16Mi", "16Mi", "1", "64M", "256Mi", "257Mi", "0", "-1Gi", "1e6", "128974848k"}

func pick[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }

// randomize gives a pod random containers.
func randomize(pod map[string]any, r *rand.Rand) {
	container := func(name string) map[string]any {
		c := e2etest.Container(name, map[string]any{"cpu": pick(r, cpus), "memory": pick(r, memories)})
		switch r.IntN(10) {
		case 0:
			delete(c["resources"].(map[string]any), "limits")
		case 1:
			delete(c["resources"].(map[string]any), "requests")
		}
		return c
	}
	var containers, inits []any
	for i := range 1 + r.IntN(2) {
		containers = append(containers, container(nameOf("main", i)))
	}
	for i := range max(0, r.IntN(4)-1) {
		c := container(nameOf("init", i))
		if r.IntN(2) == 0 {
			c["restartPolicy"] = "Always"
		}
		inits = append(inits, c)
	}
	pod["containers"] = containers
	if len(inits) > 0 {
		pod["initContainers"] = inits
	}
	if r.IntN(4) == 0 {
		pod["terminationGracePeriodSeconds"] = int64(r.IntN(600))
	}
}

// removal returns random delete options.
func removal(r *rand.Rand) []client.DeleteOption {
	var options []client.DeleteOption
	switch r.IntN(4) {
	case 0:
		options = append(options, pick(r, []client.PropagationPolicy{"Foreground", "Background", "Orphan"}))
	case 1:
		options = append(options, client.GracePeriodSeconds(r.IntN(600)))
	case 2:
		options = append(options, client.DryRunAll)
	}
	return options
}

func (a *adversary) remove(ctx context.Context, r *rand.Rand) error {
	return a.c.kubelet.Delete(ctx, a.target(r), removal(r)...)
}

// burst deletes one ShadowPod several times at once, and returns an error if none of the deletions
// is accepted.
func (a *adversary) burst(ctx context.Context, r *rand.Rand) error {
	target, options := a.target(r), removal(r)
	var taken atomic.Bool
	together(8, func(int) {
		if a.c.kubelet.Delete(ctx, target.DeepCopy(), options...) == nil {
			taken.Store(true)
		}
	})
	if !taken.Load() {
		return fmt.Errorf("none of the deletions was taken")
	}
	return nil
}

// update changes the metadata or the spec of a ShadowPod.
func (a *adversary) update(ctx context.Context, r *rand.Rand) error {
	return a.c.kubelet.Patch(ctx, a.target(r), merge(pick(r, []string{
		`{"metadata":{"labels":{"a":"b"}}}`,
		`{"metadata":{"labels":{"offloading.liqo.io/nodename":"res-other00000-1"}}}`,
		`{"metadata":{"labels":{"offloading.liqo.io/nodename":null}}}`,
		`{"metadata":{"finalizers":["rome.example.com/stay"]}}`,
		`{"metadata":{"annotations":{"a":"b"}}}`,
		`{"spec":{"pod":{"terminationGracePeriodSeconds":1000}}}`,
		`{"spec":{"pod":{"containers":[{"name":"main","image":"registry.k8s.io/pause:3.10","resources":{"requests":{"cpu":"4","memory":"16Mi"},"limits":{"cpu":"4","memory":"16Mi"}}}]}}}`,
	})))
}

// slice changes the consumer's slice.
func (a *adversary) slice(ctx context.Context, r *rand.Rand) error {
	return a.c.plane.Patch(ctx, e2e.Object(e2e.SliceKind, a.c.office, a.c.slice), merge(pick(r, []string{
		`{"spec":{"resources":{"cpu":"1000","memory":"4Ti"}}}`,
		`{"spec":{"resources":{"cpu":"500m","memory":"256Mi"}}}`,
		`{"metadata":{"annotations":{"a":"b"}}}`,
		`{"spec":{"class":"default"}}`,
	})))
}

// mapping changes the mapping of the consumer's second namespace.
func (a *adversary) mapping(ctx context.Context, r *rand.Rand) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(e2e.NamespaceMapKind.GroupVersion().WithKind(e2e.NamespaceMapKind.Kind + "List"))
	if err := a.c.plane.List(ctx, list, client.InNamespace(a.c.office)); err != nil || len(list.Items) == 0 {
		return err
	}
	return a.c.plane.Patch(ctx, &list.Items[0], merge(pick(r, []string{
		`{"spec":{"desiredMapping":{"adversary":"` + a.second + `"}}}`,
		`{"spec":{"desiredMapping":{"adversary":null}}}`,
		`{"spec":{"desiredMapping":{"stolen":"kube-system"}}}`,
	})))
}
