package liqo_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// guarded is a provider, paris, whose peers write arbitrary objects to the API server. They have
// every right that Liqo gives them, and are subject to the shipped policies.
type guarded struct {
	*member
	peers map[string]client.Client
}

func startGuarded(t *testing.T, consumers ...string) *guarded {
	t.Helper()
	g := &guarded{member: startCluster(t), peers: map[string]client.Client{}}
	g.create(&rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "liqo-remote-controlplane"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"authentication.liqo.io", "offloading.liqo.io"}, Verbs: []string{"*"},
			Resources: []string{"renews", "renews/status", "resourceslices", "resourceslices/status", "namespacemaps", "namespacemaps/status"},
		}},
	})
	for _, consumer := range consumers {
		g.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.TenantNamespaceName(consumer), Labels: map[string]string{
			agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue, consts.RemoteClusterID: consumer, consts.TenantNamespaceLabel: "true",
		}}})
		g.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: object.TenantNamespaceName(consumer), Name: "liqo"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "liqo-remote-controlplane"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: consumer}},
		})
		config := rest.CopyConfig(g.config)
		config.QPS = -1
		config.Impersonate = rest.ImpersonationConfig{UserName: consumer, Groups: []string{object.ControlPlaneGroup, "system:authenticated"}}
		peer, err := client.New(config, client.Options{Scheme: g.Scheme()})
		g.check(err)
		g.peers[consumer] = peer
	}
	return g
}

// giveRights writes the rights that the policies read: by slice, of rome if no consumer is named.
func (g *guarded) giveRights(rights map[string]string) {
	g.Helper()
	own := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-resource-broker"}}
	annotations := map[string]string{"broker.fluidos.eu/cluster-id": "paris", "broker.fluidos.eu/guarded-peers": strings.Join(slices.Sorted(maps.Keys(g.peers)), " ")}
	for slice, right := range rights {
		consumer, name, found := strings.Cut(slice, "/")
		if !found {
			consumer, name = "rome", slice
		}
		annotations[consumer+".peers.broker.fluidos.eu/"+name] = right
	}
	g.check(g.Get(g.Context(), client.ObjectKeyFromObject(own), own))
	before := own.DeepCopy()
	own.Annotations = annotations
	g.check(g.agent.Patch(g.Context(), own, client.MergeFrom(before)))
}

func replica(consumer, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: object.TenantNamespaceName(consumer), Name: name, Labels: map[string]string{
		"liqo.io/originID": consumer, "liqo.io/replicated": "true", "liqo.io/replication": "false", "liqo.io/remoteID": "paris",
	}}
}

func sliceOf(consumer, name string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{ObjectMeta: replica(consumer, name), Spec: authv1beta1.ResourceSliceSpec{
		Class: "broker", ConsumerClusterID: new(liqov1beta1.ClusterID(consumer)), ProviderClusterID: new(liqov1beta1.ClusterID("paris")),
		Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}
}

func renewOf(consumer, name string) *authv1beta1.Renew {
	return &authv1beta1.Renew{ObjectMeta: replica(consumer, name), Spec: authv1beta1.RenewSpec{
		ConsumerClusterID: liqov1beta1.ClusterID(consumer), IdentityType: authv1beta1.ControlPlaneIdentityType,
	}}
}

func mapOf(consumer, name string, mapping map[string]string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: replica(consumer, name), Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: mapping}}
}

// awaitRights waits until the API server applies the policies and the rights that they read.
func (g *guarded) awaitRights(allowed, refused client.Object) {
	g.Helper()
	rome := g.peers["rome"]
	err := wait.PollUntilContextTimeout(g.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		open := rome.Create(ctx, allowed.DeepCopyObject().(client.Object), client.DryRunAll) == nil
		shut := apierrors.IsInvalid(rome.Create(ctx, refused.DeepCopyObject().(client.Object), client.DryRunAll))
		return open && shut, nil
	})
	g.check(err)
}

const ownSlice = "res-aaaaaaaaaa-1"

// TestPoliciesOnAPIServer shows that the shipped policies bound what peers write and what Liqo takes from them.
func TestPoliciesOnAPIServer(t *testing.T) {
	g := startGuarded(t, "rome", "west-rome")
	t.Run("the control plane of a peer is bounded", func(t *testing.T) { g.in(t).boundsControlPlane(t) })
	t.Run("a provider cannot redirect Liqo", func(t *testing.T) { g.in(t).redirectsNothing(t) })
	t.Run("a slice is resized while the agent is away", func(t *testing.T) { g.in(t).resizesWithoutAgent(t) })
}

// boundsControlPlane checks that whoever holds the credentials of a peer's control plane can do only what Liqo does with
// them.
func (g *guarded) boundsControlPlane(t *testing.T) {
	g.giveRights(map[string]string{ownSlice: "Create", "res-ended-1": "Delete", "west-rome/res-west-1": "Write"})
	g.awaitRights(sliceOf("rome", ownSlice), sliceOf("rome", "flood-1"))
	t.Run("what it makes", func(t *testing.T) { g.in(t).boundsCreation() })
	t.Run("what it changes", func(t *testing.T) { g.in(t).keepsMetadata() })
	t.Run("without their rights", func(t *testing.T) { g.in(t).shutsWithoutRights() })
}

func (g *guarded) in(t *testing.T) *guarded { return &guarded{member: g.member.in(t), peers: g.peers} }

func (g *guarded) boundsCreation() {
	namespaces := map[string]string{}
	for i := range 10 {
		namespaces[fmt.Sprintf("n%d", i)] = fmt.Sprintf("n%d-rome", i)
	}
	tooMany := maps.Clone(namespaces)
	tooMany["n10"] = "n10-rome"
	with := func(obj client.Object, change func(client.Object)) client.Object { change(obj); return obj }
	cases := map[string]struct {
		as     string
		object client.Object
		// why is part of the refusal, "" if the object is accepted.
		why string
	}{
		"a slice with a reservation":    {object: sliceOf("rome", ownSlice)},
		"a slice without one":           {object: sliceOf("rome", "flood-1"), why: "cluster rome has no live reservation for slice flood-1"},
		"a slice of one that has ended": {object: sliceOf("rome", "res-ended-1"), why: "no live reservation"},
		"a slice of another consumer's": {object: sliceOf("rome", "res-west-1"), why: "no live reservation"},
		"that slice by whose it is":     {as: "west-rome", object: sliceOf("west-rome", "res-west-1")},
		"less than nothing":             {object: with(sliceOf("rome", ownSlice), func(o client.Object) { o.(*authv1beta1.ResourceSlice).Spec.Resources["cpu"] = resource.MustParse("-1") }), why: "may not be negative"},
		"a finalizer":                   {object: with(sliceOf("rome", ownSlice), func(o client.Object) { o.SetFinalizers([]string{"a.io/b"}) }), why: "metadata.finalizers and metadata.ownerReferences"},
		"an owner": {object: with(sliceOf("rome", ownSlice), func(o client.Object) {
			o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "b"}})
		}), why: "metadata.finalizers and metadata.ownerReferences"},
		"annotations of 17 KiB":                    {object: with(sliceOf("rome", ownSlice), func(o client.Object) { o.SetAnnotations(map[string]string{"a": strings.Repeat("x", 17<<10)}) }), why: "16 KiB"},
		"annotations of 15 KiB":                    {object: with(sliceOf("rome", ownSlice), func(o client.Object) { o.SetAnnotations(map[string]string{"a": strings.Repeat("x", 15<<10)}) })},
		"its own renewal":                          {object: renewOf("rome", "controlplane-paris")},
		"another renewal of its own":               {object: renewOf("rome", "controlplane-other"), why: "must be named controlplane-paris"},
		"a renewal of another consumer's":          {object: with(renewOf("rome", "controlplane-paris"), func(o client.Object) { o.(*authv1beta1.Renew).Spec.ConsumerClusterID = "west-rome" }), why: "must be for the control plane of rome"},
		"a renewal of a slice's identity":          {object: with(renewOf("rome", "controlplane-paris"), func(o client.Object) { o.(*authv1beta1.Renew).Spec.IdentityType = "ResourceSlice" }), why: "must be for the control plane of rome"},
		"as many namespaces as are let":            {object: mapOf("rome", "paris", namespaces)},
		"one more":                                 {object: mapOf("rome", "paris", tooMany), why: "11 namespaces, this cluster accepts at most 10"},
		"a second map":                             {object: mapOf("rome", "other", nil), why: "must be named paris"},
		"a name that ends like its own":            {object: mapOf("rome", "paris", map[string]string{"demo": "demo-north-rome"}), why: "must be named NAMESPACE-rome"},
		"its own name, which is another's as well": {object: mapOf("rome", "paris", map[string]string{"demo-west": "demo-west-rome"}), why: "ID of another consumer: -west-rome"},
		"a name like that of a tenant namespace":   {object: mapOf("rome", "paris", map[string]string{"liqo-tenant": "liqo-tenant-rome"}), why: "may not be named liqo-tenant-*"},
		"that name by whose it is":                 {as: "west-rome", object: mapOf("west-rome", "paris", map[string]string{"demo": "demo-west-rome"})},
		"the same name as there":                   {object: mapOf("rome", "paris", map[string]string{"demo": "demo"}), why: "must be named NAMESPACE-rome"},
		"a name that is too long for a namespace":  {object: mapOf("rome", "paris", map[string]string{strings.Repeat("a", 64): strings.Repeat("a", 64) + "-rome"}), why: "must be named NAMESPACE-rome"},
	}
	for name, test := range cases {
		g.Run(name, func(t *testing.T) {
			as := "rome"
			if test.as != "" {
				as = test.as
			}
			wantRefusal(t, g.peers[as].Create(t.Context(), test.object, client.DryRunAll), test.why)
		})
	}
}

// wantRefusal fails unless err is a refusal that Liqo's replicator retries; if why is empty, it wants no error.
func wantRefusal(t *testing.T, err error, why string) {
	t.Helper()
	switch {
	case why == "" && err != nil:
		t.Errorf("refused: %v", err)
	case why != "" && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), why)):
		t.Errorf("got %v, want it invalid for %q", err, why)
	}
}

// keepsMetadata checks that a peer can change no part of its replica but the spec.
func (g *guarded) keepsMetadata() {
	rome := g.peers["rome"]
	slice := sliceOf("rome", ownSlice)
	slice.Annotations = map[string]string{"liqo.io/create-virtual-node": "true"}
	g.check(rome.Create(g.Context(), slice))
	// The agent cordons the slice, and Liqo adds a finalizer.
	g.check(g.Get(g.Context(), client.ObjectKeyFromObject(slice), slice))
	slice.Annotations[consts.CordonResourceAnnotation] = "true"
	slice.Finalizers = []string{"liqo.io/finalizer"}
	g.check(g.Update(g.Context(), slice))
	for name, test := range map[string]struct {
		change func(*authv1beta1.ResourceSlice)
		why    string
	}{
		"its resources":           {change: func(s *authv1beta1.ResourceSlice) { s.Spec.Resources["cpu"] = resource.MustParse("2") }},
		"the cordon":              {change: func(s *authv1beta1.ResourceSlice) { delete(s.Annotations, consts.CordonResourceAnnotation) }, why: "metadata.labels and metadata.annotations of a replica may not be changed"},
		"another annotation":      {change: func(s *authv1beta1.ResourceSlice) { s.Annotations["a"] = "b" }, why: "metadata.labels and metadata.annotations of a replica may not be changed"},
		"another label":           {change: func(s *authv1beta1.ResourceSlice) { s.Labels["a"] = "b" }, why: "metadata.labels and metadata.annotations of a replica may not be changed"},
		"the finalizer":           {change: func(s *authv1beta1.ResourceSlice) { s.Finalizers = nil }, why: "metadata.finalizers and metadata.ownerReferences"},
		"a finalizer of its own":  {change: func(s *authv1beta1.ResourceSlice) { s.Finalizers = append(s.Finalizers, "a.io/b") }, why: "metadata.finalizers and metadata.ownerReferences"},
		"resources below nothing": {change: func(s *authv1beta1.ResourceSlice) { s.Spec.Resources["cpu"] = resource.MustParse("-2") }, why: "may not be negative"},
	} {
		g.Run(name, func(t *testing.T) {
			changed := slice.DeepCopy()
			test.change(changed)
			wantRefusal(t, rome.Update(t.Context(), changed, client.DryRunAll), test.why)
		})
	}
}

// shutsWithoutRights checks that peers can create nothing while the annotations with the rights are
// gone, and that this cluster's own work continues.
func (g *guarded) shutsWithoutRights() {
	g.Helper()
	slice := sliceOf("west-rome", "res-west-1")
	g.check(g.peers["west-rome"].Create(g.Context(), slice.DeepCopy(), client.DryRunAll))
	namespaceMap := mapOf("rome", "paris", nil)
	g.check(g.peers["rome"].Create(g.Context(), namespaceMap))
	own := &corev1.Namespace{}
	g.check(g.Get(g.Context(), client.ObjectKey{Name: "liqo-resource-broker"}, own))
	own.Annotations = nil
	g.check(g.Update(g.Context(), own))
	var err error
	g.check(wait.PollUntilContextTimeout(g.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err = g.peers["west-rome"].Create(ctx, slice.DeepCopy(), client.DryRunAll)
		return err != nil, nil
	}))
	wantRefusal(g.T, err, "no live reservation")
	wantRefusal(g.T, g.peers["rome"].Create(g.Context(), renewOf("rome", "controlplane-paris"), client.DryRunAll), "the Renew of a peer must be named")
	slice = sliceOf("rome", "res-bbbbbbbbbb-1")
	slice.Labels = map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue}
	g.check(g.Create(g.Context(), slice, client.DryRunAll))
	namespaceMap.Finalizers = []string{"liqo.io/finalizer"}
	g.check(g.Update(g.Context(), namespaceMap))
	namespaceMap.Spec.DesiredMapping = map[string]string{"demo": "demo-rome"}
	wantRefusal(g.T, g.peers["rome"].Update(g.Context(), namespaceMap), "the NamespaceMap of a peer must be named")
}

// resizesWithoutAgent changes a slice while the agent may be restarting. Liqo's replicator does not repeat an update that
// failed, so a change of the resources must not depend on the agent. A new certificate request must still wait for it.
func (g *guarded) resizesWithoutAgent(t *testing.T) {
	const name = "res-resized-1"
	g.giveRights(map[string]string{name: "Write"})
	slice := sliceOf("rome", name)
	slice.Spec.CSR = []byte("csr")
	g.awaitRights(slice, sliceOf("rome", "flood-1"))
	g.check(g.peers["rome"].Create(t.Context(), slice))
	g.installWebhooks()

	resigned := slice.DeepCopy()
	resigned.Spec.CSR = []byte("another csr")
	err := wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		return apierrors.IsInternalError(g.peers["rome"].Update(ctx, resigned.DeepCopy(), client.DryRunAll)), nil
	})
	if err != nil {
		t.Fatalf("another certificate request was admitted while the agent was away: %v", err)
	}
	slice.Spec.Resources[corev1.ResourceCPU] = resource.MustParse("2")
	if err := g.peers["rome"].Update(t.Context(), slice); err != nil {
		t.Errorf("change of the resources while the agent is away: %v", err)
	}
}

// installWebhooks installs the validating webhooks of the agent's chart, although no agent answers them.
func (g *guarded) installWebhooks() {
	g.Helper()
	files, err := chart.LoadFS(charts.Agent())
	g.check(err)
	rendered, err := chart.Render(files, chart.Release{Name: "liqo-resource-broker-agent", Namespace: "liqo-resource-broker"})
	g.check(err)
	for _, obj := range rendered.Objects {
		if obj.GetKind() == "ValidatingWebhookConfiguration" {
			g.create(obj)
			return
		}
	}
	g.Fatal("the agent's chart has no ValidatingWebhookConfiguration")
}
