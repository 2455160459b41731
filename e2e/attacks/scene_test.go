package attacks

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
)

const (
	// namespace contains the consumers' requests and pods.
	namespace = "e2e"
	// provider is the target of most tests. rome attacks it, and berlin is the neighbour.
	provider = "paris"
	// patience is enough for every wait on a busy machine, and for the first pauses that a failed
	// run leaves behind.
	patience = 4 * time.Minute
	// replicator is the process of Liqo that removes replicas it did not make.
	replicator = "liqo-crd-replicator"
)

var stage = e2etest.Stage[*local.Environment]{Boot: local.UpForTests, Ensured: []string{namespace}, Emptied: []string{namespace}}

// shared is the scene that one test leaves to the next, nil if there is none. Creating and removing
// a scene takes longer than most attacks.
var shared *scene

func TestMain(m *testing.M) { os.Exit(stage.Run(m)) }

// openEmpty returns the playground without reservations, and removes those of the test at its end.
func openEmpty(t *testing.T) *local.Environment {
	t.Helper()
	shared = nil
	return stage.Open(t)
}

func check(t testing.TB, err error) {
	t.Helper()
	e2etest.Check(t, err)
}

func refused(t testing.TB, err error) {
	t.Helper()
	e2etest.Refused(t, err)
}

// grant is what each consumer reserves.
func grant() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
}

// tenant is a consumer with one reservation at the provider, and the credentials that Liqo issued
// to the consumer.
type tenant struct {
	id      string
	home    *e2e.Cluster
	request *agentv1alpha1.ResourceRequest
	// slice is the name of the ResourceSlice, the virtual node and the placement.
	slice string
	// plane is the identity of the consumer's control plane; kubelet is the identity of the slice.
	plane, kubelet *e2e.Cluster
	// landing is the consumer's namespace at the provider; office is its tenant namespace.
	landing, office string
}

// scene has two consumers, each with a reservation at the same provider.
type scene struct {
	env                 *local.Environment
	provider            *e2e.Cluster // with an administrator's rights
	attacker, neighbour *tenant
	observer            *observer
	// spoiled reports whether Liqo's count of the attacker's slice is wrong.
	spoiled bool
}

// open returns the scene that tests share, with a new observer. At the end of the test, an honest
// workload must still run on the slice of each consumer, and no consumer may ever have exceeded its
// grant.
func open(t *testing.T) *scene {
	t.Helper()
	env := stage.Keep(t)
	t.Cleanup(func() {
		if t.Failed() {
			shared = nil // the next test sets up a new scene
		}
	})
	switch {
	case shared == nil:
		stage.Clear(t)
		shared = &scene{env: env, provider: env.Member(provider)}
		shared.reserve(t, "rome", "berlin")
	case shared.spoiled:
		shared.replaceSlice(t)
	}
	s := shared
	s.observe(t)
	for _, c := range []*tenant{s.attacker, s.neighbour} {
		s.awaitIdentities(t, c)
	}
	t.Cleanup(func() { s.verify(t) })
	return s
}

// openToSpoil returns the shared scene for attacks that delete ShadowPods repeatedly. Liqo counts
// every deletion, so its count of the slice stays wrong, and the next test gets a new slice.
func openToSpoil(t *testing.T) *scene {
	t.Helper()
	s := open(t)
	s.spoiled = true
	return s
}

// replaceSlice replaces the attacker's reservation with a new one.
func (s *scene) replaceSlice(t *testing.T) {
	t.Helper()
	former := s.attacker
	s.attacker = s.consumer(t, former.id)
	s.awaitIdentities(t, s.attacker)
	check(t, former.home.DeleteAndWait(t.Context(), former.request, patience))
	s.spoiled = false
}

// openWith sets up a scene on a playground whose settings the test has chosen.
func openWith(t *testing.T, env *local.Environment, host, attacker, neighbour string) *scene {
	t.Helper()
	s := &scene{env: env, provider: env.Member(host)}
	s.reserve(t, attacker, neighbour)
	s.observe(t)
	return s
}

// observe observes the consumers' pods until the test ends.
func (s *scene) observe(t *testing.T) {
	t.Helper()
	s.observer = observe(t, s.provider, map[string]corev1.ResourceList{s.attacker.id: grant(), s.neighbour.id: grant()})
}

// reserve has both consumers reserve capacity at the provider.
func (s *scene) reserve(t *testing.T, attacker, neighbour string) {
	t.Helper()
	s.attacker, s.neighbour = s.consumer(t, attacker), s.consumer(t, neighbour)
	for _, c := range []*tenant{s.attacker, s.neighbour} {
		s.awaitIdentities(t, c)
	}
}

// verify fails the test if an attack left behind anything that affects honest users, or if a
// consumer ever exceeded its grant.
func (s *scene) verify(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		s.liveHonestly(t, s.attacker, s.neighbour)
	}
	s.observer.verify(t)
	s.unhold(t)
}

// heldBy is the finalizer with which attacks try to block the deletion of objects.
const heldBy = "rome.example.com/stay"

// unhold removes finalizers that passed the guards, so that the next test can begin.
func (s *scene) unhold(t *testing.T) {
	t.Helper()
	ctx := context.Background()
	for _, kind := range []schema.GroupVersionKind{e2e.SliceKind, e2e.NamespaceMapKind, e2e.RenewKind} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		check(t, s.provider.List(ctx, list))
		for i := range list.Items {
			finalizers := list.Items[i].GetFinalizers()
			if kept := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == heldBy }); len(kept) < len(finalizers) {
				list.Items[i].SetFinalizers(kept)
				check(t, client.IgnoreNotFound(s.provider.Update(ctx, &list.Items[i])))
			}
		}
	}
}

// consumer requests capacity at the provider for a cluster. It does not wait until the capacity is
// reserved.
func (s *scene) consumer(t *testing.T, id string) *tenant {
	t.Helper()
	c := &tenant{id: id, home: s.env.Member(id), landing: namespace + "-" + id, office: e2e.TenantNamespace(id)}
	var err error
	c.request, err = c.home.Request(t.Context(), namespace, unused("honest"), grant(), at(s.provider.Name))
	check(t, err)
	return c
}

// at restricts a request to one provider, and lets the request wait while the broker has paused the
// pair.
func at(provider string) func(spec *agentv1alpha1.ResourceRequestSpec) {
	return func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{provider}}
		spec.QueuePolicy = brokerv1alpha1.QueuePolicyQueue
	}
}

// awaitIdentities sets the slice of the consumer and the clients with its identities, plane and
// kubelet. It waits until the consumer's virtual kubelet is allowed to write.
func (s *scene) awaitIdentities(t *testing.T, c *tenant) {
	t.Helper()
	check(t, c.home.AwaitReady(t.Context(), c.request, patience))
	c.slice = c.request.Status.NodeName
	var err error
	c.plane, err = s.env.Identity(t.Context(), c.id, s.provider.Name)
	check(t, err)
	c.kubelet, err = s.env.SliceIdentity(t.Context(), c.id, s.provider.Name, c.slice)
	check(t, err)
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		return "", c.kubelet.Create(ctx, c.pod(unused("probe")), client.DryRunAll)
	}))
}

// given counts the names that unused has returned.
var given atomic.Int64

// unused returns a name that no test has used yet. Liqo refuses a ShadowPod with a recently used
// name, and the attack would never reach the guards.
func unused(prefix string) string { return fmt.Sprintf("%s-%d", prefix, given.Add(1)) }

// pod returns an ordinary ShadowPod of the consumer with requests of 100m and 16Mi.
func (c *tenant) pod(name string) *unstructured.Unstructured {
	return e2etest.ShadowPod(c.id, c.slice, c.landing, name)
}

// podWith returns a ShadowPod with a changed pod spec.
func (c *tenant) podWith(name string, change func(pod map[string]any)) *unstructured.Unstructured {
	shadow := c.pod(name)
	change(podOf(shadow))
	return shadow
}

// podOf returns the pod spec within a ShadowPod.
func podOf(shadow *unstructured.Unstructured) map[string]any {
	return shadow.Object["spec"].(map[string]any)["pod"].(map[string]any)
}

// mainOf returns the first container of a pod spec.
func mainOf(pod map[string]any) map[string]any { return pod["containers"].([]any)[0].(map[string]any) }

// requests sets the requests and limits of the first container.
func requests(cpu, memory string) func(pod map[string]any) {
	return func(pod map[string]any) {
		amounts := map[string]any{"cpu": cpu, "memory": memory}
		mainOf(pod)["resources"] = map[string]any{"requests": amounts, "limits": amounts}
	}
}

// set sets a field of a pod spec.
func set(value any, path ...string) func(pod map[string]any) {
	return func(pod map[string]any) {
		if err := unstructured.SetNestedField(pod, value, path...); err != nil {
			panic(err)
		}
	}
}

// onMain sets a field of the first container.
func onMain(value any, path ...string) func(pod map[string]any) {
	return func(pod map[string]any) { set(value, path...)(mainOf(pod)) }
}

// attack is a request to the API server that must be refused.
type attack func(ctx context.Context) error

// refuseAll runs each attack in a subtest, which fails unless the attack is refused.
func refuseAll(t *testing.T, attacks map[string]attack) {
	t.Helper()
	for name, try := range attacks {
		t.Run(name, func(t *testing.T) { refused(t, try(t.Context())) })
	}
}

// refusePods tries to create changed ShadowPods, each in a subtest, which fails unless the
// ShadowPod is refused.
func (s *scene) refusePods(t *testing.T, c *tenant, changes map[string]func(pod map[string]any)) {
	t.Helper()
	attacks := map[string]attack{}
	for name, change := range changes {
		attacks[name] = s.create(t, c, func(shadow *unstructured.Unstructured) { change(podOf(shadow)) })
	}
	refuseAll(t, attacks)
}

// create returns an attack that creates a changed ShadowPod. It removes an admitted ShadowPod
// again, so that the next attack starts afresh.
func (s *scene) create(t *testing.T, c *tenant, change func(shadow *unstructured.Unstructured)) attack {
	return func(ctx context.Context) error {
		shadow := c.pod(unused("stolen"))
		change(shadow)
		err := c.kubelet.Create(ctx, shadow)
		if err == nil {
			s.removeAll(t, c)
		}
		return err
	}
}

// pause stops a process of Liqo in a cluster until resume is called or the test ends.
func (s *scene) pause(t *testing.T, cluster, process string) (resume func()) {
	t.Helper()
	p, ok := s.env.Playground.Clusters[cluster].Processes().Process(process)
	if !ok {
		t.Fatalf("%s has no process %q", cluster, process)
	}
	pid, paused := p.Pid(), true
	check(t, syscall.Kill(pid, syscall.SIGSTOP))
	resume = func() {
		if paused {
			paused = false
			check(t, syscall.Kill(pid, syscall.SIGCONT))
		}
	}
	t.Cleanup(resume)
	return resume
}

// withValues upgrades an agent to other values of its chart until the test ends.
func withValues(t *testing.T, env *local.Environment, member string, values map[string]any) {
	t.Helper()
	before, changed := env.Product.Values(member), env.Product.Values(member)
	maps.Copy(changed, values)
	t.Cleanup(func() { check(t, env.Product.Upgrade(context.Background(), member, before)) })
	check(t, env.Product.Upgrade(t.Context(), member, changed))
}

// awaitNoPods waits until the provider has no pods of a consumer.
func (s *scene) awaitNoPods(t testing.TB, c *tenant) {
	t.Helper()
	check(t, s.awaitEmpty(context.Background(), c))
}

func (s *scene) awaitEmpty(ctx context.Context, c *tenant) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		list := &corev1.PodList{}
		if err := s.provider.List(ctx, list, client.InNamespace(c.landing)); err != nil || len(list.Items) == 0 {
			return "", err
		}
		return fmt.Sprintf("%d pods of %s to leave %s", len(list.Items), c.id, s.provider.Name), nil
	})
}

// removeAll deletes the consumer's ShadowPods and waits until their pods are gone.
func (s *scene) removeAll(t testing.TB, c *tenant) {
	t.Helper()
	s.removeIn(t, c.landing)
	s.awaitNoPods(t, c)
}

// removeIn deletes the ShadowPods of a namespace as the provider's administrator would.
func (s *scene) removeIn(t testing.TB, landing string) {
	t.Helper()
	ctx := context.Background()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(e2e.ShadowPodKind.GroupVersion().WithKind(e2e.ShadowPodKind.Kind + "List"))
	check(t, s.provider.List(ctx, list, client.InNamespace(landing)))
	for i := range list.Items {
		shadow := &list.Items[i]
		if shadow.GetDeletionTimestamp() != nil && len(shadow.GetFinalizers()) == 0 {
			continue
		}
		if len(shadow.GetFinalizers()) > 0 {
			shadow.SetFinalizers(nil)
			_ = s.attacker.kubelet.Update(ctx, shadow) // Liqo lets only the consumer change a ShadowPod
		}
		check(t, client.IgnoreNotFound(s.provider.Delete(ctx, shadow)))
	}
}

// ownSlice reads the replica of a consumer's slice at the provider.
func (c *tenant) ownSlice(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	slice := e2e.Object(e2e.SliceKind, c.office, c.slice)
	check(t, c.plane.Get(context.Background(), client.ObjectKeyFromObject(slice), slice))
	return slice
}

// ownMap reads the replica of the consumer's NamespaceMap at the provider.
func (c *tenant) ownMap(t testing.TB) *unstructured.Unstructured {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(e2e.NamespaceMapKind.GroupVersion().WithKind(e2e.NamespaceMapKind.Kind + "List"))
	check(t, c.plane.List(context.Background(), list, client.InNamespace(c.office)))
	for i := range list.Items {
		if list.Items[i].GetLabels()["liqo.io/originID"] == c.id {
			return &list.Items[i]
		}
	}
	t.Fatalf("%s has no replicated NamespaceMap in %s", c.id, c.office)
	return nil
}

// forge returns a copy of the consumer's slice with another name and with changes.
func (c *tenant) forge(t testing.TB, name string, change func(spec map[string]any)) *unstructured.Unstructured {
	t.Helper()
	genuine := c.ownSlice(t)
	slice := e2e.Object(e2e.SliceKind, c.office, name)
	slice.SetLabels(genuine.GetLabels())
	spec := genuine.Object["spec"].(map[string]any)
	change(spec)
	slice.Object["spec"] = spec
	return slice
}

func named(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}
