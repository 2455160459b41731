package attacks

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
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

// adversary performs random operations that roles allow its identities.
type adversary struct {
	c      *tenant
	second string // a further namespace of the adversary at the provider
	actors []*actor
	// address is where the objects of the adversary want Liqo to call.
	address string
	spec    map[string]any // the spec of the consumer's slice
	tried   atomic.Int64
}

// actor is an identity and what it writes besides pods. Its operations are counted.
type actor struct {
	*e2e.Cluster
	namespaces           []string
	kinds                []schema.GroupVersionKind
	taken, refused, pods atomic.Int64
}

var (
	secretKind    = corev1.SchemeGroupVersion.WithKind("Secret")
	configMapKind = corev1.SchemeGroupVersion.WithKind("ConfigMap")
	claimKind     = corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim")
)

// TestRandomAdversaryStaysWithinItsGrant performs thousands of random operations in parallel, as a
// consumer, as a provider, and as users of namespaces of both. Invariant E1 must hold throughout,
// Liqo must call no address of the adversary, no Secret of a namespace that is not offloaded may
// reach the provider, the neighbouring consumer must not be disturbed, and the attacker's own honest
// workload must run afterwards.
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
	address, calls := listen(t)
	a := &adversary{c: s.attacker, address: address, spec: s.attacker.ownSlice(t).Object["spec"].(map[string]any)}
	resume := s.pause(t, "rome", replicator)
	a.second = s.secondLandingUnpaused(t)
	users := []schema.GroupVersionKind{secretKind, configMapKind, claimKind}
	a.actors = []*actor{
		{Cluster: a.c.kubelet, namespaces: []string{a.c.landing, a.second}, kinds: users},
		{Cluster: a.c.plane, namespaces: []string{a.c.office}, kinds: []schema.GroupVersionKind{e2e.SliceKind, e2e.RenewKind}},
		{Cluster: editor(t, a.c.home, namespace), namespaces: []string{namespace}, kinds: users},
		{Cluster: editor(t, s.provider, a.c.landing), namespaces: []string{a.c.landing}, kinds: users},
		{Cluster: a.c.home, namespaces: []string{e2e.TenantNamespace(provider)}}, // it writes what Liqo copies from a provider
	}
	secretIn(t, a.c.home, s.provider)
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	together(6, func(i int) {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		for ctx.Err() == nil {
			a.act(ctx, r)
		}
	})
	t.Logf("%d operations", a.tried.Load())
	for i, by := range a.actors {
		t.Logf("%d of %s were taken, %d refused; %d for pods were taken", by.taken.Load(), by.Name, by.refused.Load(), by.pods.Load())
		if by.taken.Load() == 0 || by.refused.Load() == 0 || i == 0 && by.pods.Load() == 0 {
			t.Errorf("the operations of %s attack nothing: some must be taken, and some refused", by.Name)
		}
	}
	s.observer.verify(t)
	a.tidy(t, s)
	s.removeAll(t, s.attacker)
	s.removeIn(t, a.second)
	s.liveHonestly(t, s.neighbour)
	resume()
	s.awaitIdentities(t, s.attacker)
	if n := calls.Load(); n > 0 {
		t.Errorf("%d connections were made to an address that only the adversary named", n)
	}
}

// listen returns an address of this machine, and the number of connections to it.
func listen(t *testing.T) (string, *atomic.Int64) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	calls := &atomic.Int64{}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			_ = conn.Close()
		}
	}()
	return listener.Addr().String(), calls
}

// editor returns a client of a user who may edit in a namespace.
func editor(t *testing.T, c *e2e.Cluster, in string) *e2e.Cluster {
	t.Helper()
	user := "an editor of " + c.Name
	binding := &rbacv1.RoleBinding{
		ObjectMeta: named(in, "adversary"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	}
	check(t, c.Create(t.Context(), binding))
	t.Cleanup(func() { check(t, client.IgnoreNotFound(c.Delete(context.Background(), binding))) })
	config := *c.Config
	config.Impersonate = rest.ImpersonationConfig{UserName: user}
	as, err := e2e.NewCluster(user, &config, "")
	check(t, err)
	return as
}

// tidy removes what the adversary left besides pods.
func (a *adversary) tidy(t *testing.T, s *scene) {
	t.Helper()
	for i, by := range a.actors {
		admin := s.provider
		if i == 2 {
			admin = a.c.home
		}
		for _, kind := range by.kinds {
			for _, in := range by.namespaces {
				check(t, admin.DeleteAllOf(t.Context(), e2e.Object(kind, "", ""), client.InNamespace(in), client.MatchingLabels{"made-by": "adversary"}))
			}
		}
	}
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

// act performs one random operation. Half of them are about pods.
func (a *adversary) act(ctx context.Context, r *rand.Rand) {
	a.tried.Add(1)
	if r.IntN(2) == 0 {
		by, write := pick(r, a.actors), a.write
		if by.kinds == nil {
			write = a.misreport
		}
		switch err := write(ctx, by, r); {
		case err == nil:
			by.taken.Add(1)
		case e2etest.IsRefused(err):
			by.refused.Add(1)
		}
		return
	}
	actions := []func(context.Context, *rand.Rand) error{a.create, a.create, a.create, a.remove, a.remove, a.remove, a.update, a.burst, a.mapping}
	if actions[r.IntN(len(actions))](ctx, r) == nil {
		a.actors[0].pods.Add(1)
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

// write creates, changes or deletes an object that Liqo might take for one of its own.
func (a *adversary) write(ctx context.Context, by *actor, r *rand.Rand) error {
	obj := e2e.Object(pick(r, by.kinds), pick(r, by.namespaces), pick(r, []string{"random-1", "random-2", "random-3", "liqo-webhook-certs", "res-other00000-1"}))
	if obj.GetKind() == e2e.SliceKind.Kind && r.IntN(3) == 0 {
		obj.SetName(a.c.slice)
	}
	switch r.IntN(8) {
	case 0, 1, 2, 3:
		a.disguise(obj, r)
		return by.Create(ctx, obj, client.FieldOwner("adversary"))
	case 4, 5:
		a.disguise(obj, r)
		text, err := obj.MarshalJSON()
		if err != nil {
			return err
		}
		if r.IntN(4) == 0 {
			return by.Status().Patch(ctx, obj, merge(`{"status":{"resources":{"cpu":"1000"},"authParams":{"apiServer":"https://`+a.address+`"}}}`))
		}
		return by.Patch(ctx, obj, merge(string(text)))
	case 6:
		return by.DeleteAllOf(ctx, obj, client.InNamespace(obj.GetNamespace()), client.MatchingLabels{"made-by": "adversary"})
	default:
		if obj.GetName() == a.c.slice && r.IntN(8) > 0 {
			return nil // without its slice the adversary has no pods
		}
		return by.Delete(ctx, obj)
	}
}

// Labels and annotations by which Liqo recognizes its own objects, and values that it reads.
var (
	labelsOfLiqo = []string{
		"liqo.io/identity-type", "liqo.io/local", "liqo.io/managed", "liqo.io/nonce", "liqo.io/originID", "liqo.io/remote-cluster-id",
		"liqo.io/remoteID", "liqo.io/replicated", "liqo.io/replication", "liqo.io/signed-nonce", "liqo.io/tenant-namespace", "liqo.io/webhook",
		"liqo.io/remote-tenant-csr", "networking.liqo.io/gateway-resource", "networking.liqo.io/gateway-client-pod", "offloading.liqo.io/destination",
		"offloading.liqo.io/nodename", "offloading.liqo.io/origin", "app.kubernetes.io/managed-by",
	}
	annotationsOfLiqo = []string{
		"liqo.io/remote-tenant-namespace", "liqo.io/create-virtual-node", "liqo.io/cordon", "liqo.io/renew", "liqo.io/skip-reflection",
		"volume.beta.kubernetes.io/storage-class", "kubernetes.io/service-account.name", "broker.fluidos.eu/drain",
	}
	valuesOfLiqo = []string{"true", "rome", "paris", "berlin", "ControlPlane", "ResourceSlice", "liqo", "liqo-tenant-rome", "liqo-tenant-berlin", "default"}
)

// disguise gives an object random metadata, and content that leads to the adversary's address.
func (a *adversary) disguise(obj *unstructured.Unstructured, r *rand.Rand) {
	random := func(keys []string, most int) map[string]string {
		of := map[string]string{}
		for range r.IntN(most) {
			of[pick(r, keys)] = pick(r, valuesOfLiqo)
		}
		return of
	}
	labels := random(labelsOfLiqo, 5)
	if obj.GetKind() == e2e.SliceKind.Kind || obj.GetKind() == e2e.RenewKind.Kind { // what Liqo's replicator sets
		labels["liqo.io/originID"], labels["liqo.io/remoteID"], labels["liqo.io/replicated"] = a.c.id, provider, "true"
	}
	labels["made-by"] = "adversary"
	obj.SetLabels(labels)
	obj.SetAnnotations(random(annotationsOfLiqo, 3))
	kubeconfig := fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: a, user: a}}],
		clusters: [{name: a, cluster: {server: "https://%s", insecure-skip-tls-verify: true}}], users: [{name: a, user: {token: a}}]}`, a.address)
	switch obj.GetKind() {
	case secretKind.Kind:
		obj.Object["stringData"] = map[string]any{"kubeconfig": kubeconfig, "ca": "a", "tls.crt": "a", "tls.key": "a", "nonce": "a"}
	case configMapKind.Kind:
		obj.Object["data"] = map[string]any{"kubeconfig": kubeconfig}
	case claimKind.Kind:
		obj.Object["spec"] = map[string]any{"accessModes": []any{"ReadWriteOnce"}, "storageClassName": pick(r, []string{"", "standard"}),
			"resources": map[string]any{"requests": map[string]any{"storage": "1Gi"}}}
	case e2e.SliceKind.Kind:
		spec := runtime.DeepCopyJSON(a.spec)
		for key, value := range map[string]any{
			"class": pick(r, []string{"broker", "broker", "broker", "default"}), "consumerClusterID": pick(r, []string{"rome", "rome", "rome", "berlin"}),
			"resources": map[string]any{"cpu": pick(r, []string{"500m", "1000"}), "memory": "256Mi"},
		} {
			spec[key] = value
		}
		obj.Object["spec"] = spec
	case e2e.RenewKind.Kind:
		obj.Object["spec"] = map[string]any{"consumerClusterID": pick(r, []string{"rome", "berlin"}), "csr": a.spec["csr"],
			"identityType": pick(r, []string{"ControlPlane", "ResourceSlice"}), "resourceSliceRef": map[string]any{"name": a.c.slice}}
	}
}

// misreport changes which namespaces a provider accepts, or the labels of its virtual node.
func (a *adversary) misreport(ctx context.Context, by *actor, r *rand.Rand) error {
	if r.IntN(2) == 0 {
		return by.Patch(ctx, e2e.Object(e2e.VirtualNodeKind, by.namespaces[0], a.c.slice), merge(fmt.Sprintf(`{"spec":{"labels":{%q:%q}}}`,
			pick(r, append([]string{"topology.kubernetes.io/region", "kubernetes.io/hostname"}, labelsOfLiqo...)), pick(r, valuesOfLiqo))))
	}
	return by.Status().Patch(ctx, e2e.Object(e2e.NamespaceMapKind, by.namespaces[0], provider), merge(fmt.Sprintf(
		`{"status":{"currentMapping":{%q:{"phase":%q,"remoteNamespace":%q}}}}`, pick(r, []string{namespace, metav1.NamespaceSystem, "liqo"}),
		pick(r, []string{"Accepted", "CreationLoopBackOff"}), pick(r, []string{a.c.landing, a.second, "default"}))))
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
