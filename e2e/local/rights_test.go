package local

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

// identities are stolen copies of rome's credentials at a provider.
type identities struct {
	env      *Environment
	provider string
	slices   map[string]*e2e.Cluster // by the request's name
	plane    *e2e.Cluster
}

// keepIdentities copies the credentials of rome's control plane and of the slices of some requests at one provider,
// and checks that they can write.
func keepIdentities(t *testing.T, env *Environment, requests ...*agentv1alpha1.ResourceRequest) *identities {
	t.Helper()
	ids := &identities{env: env, provider: requests[0].Status.TargetClusterID, slices: map[string]*e2e.Cluster{}}
	var err error
	ids.plane, err = env.Identity(t.Context(), "rome", ids.provider)
	check(t, err)
	for _, r := range requests {
		ids.slices[r.Name], err = env.SliceIdentity(t.Context(), "rome", ids.provider, r.Status.NodeName)
		check(t, err)
		ids.wantStanding(t, r)
	}
	return ids
}

// loot returns the objects that a slice's identity could create at the provider.
func loot(name string) map[string]client.Object {
	meta := func() metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: offloaded, Name: name} }
	return map[string]client.Object{
		"ConfigMap": &corev1.ConfigMap{ObjectMeta: meta()},
		"Secret":    &corev1.Secret{ObjectMeta: meta()},
		"Service":   &corev1.Service{ObjectMeta: meta(), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
	}
}

// wantStanding checks that the identity can write while its reservation stands.
func (ids *identities) wantStanding(t *testing.T, r *agentv1alpha1.ResourceRequest) {
	t.Helper()
	for kind, obj := range loot("of-" + r.Name) {
		if err := ids.slices[r.Name].Create(t.Context(), obj, client.DryRunAll); err != nil {
			t.Errorf("%s of the identity of %q, whose reservation stands: %v", kind, r.Name, err)
		}
	}
}

// wantEnded waits until the identity of a released request can no longer write. It fails the test if the identity can
// still create an object afterwards.
func (ids *identities) wantEnded(t *testing.T, r *agentv1alpha1.ResourceRequest, released time.Time) {
	t.Helper()
	ctx, thief, admin := t.Context(), ids.slices[r.Name], ids.env.Member(ids.provider)
	left := note(offloaded, "left-by-its-owner")
	check(t, admin.Create(ctx, left))
	t.Cleanup(func() { check(t, client.IgnoreNotFound(admin.Delete(context.Background(), left))) })
	writes := map[string]func(context.Context) error{
		"a change": func(ctx context.Context) error {
			return thief.Patch(ctx, note(left.Namespace, left.Name), client.RawPatch(types.MergePatchType, []byte(`{"data":{"a":"b"}}`)))
		},
		"a deletion": func(ctx context.Context) error {
			return thief.Delete(ctx, note(left.Namespace, left.Name), client.DryRunAll)
		},
		"a ShadowPod": func(ctx context.Context) error {
			return thief.Create(ctx, e2etest.ShadowPod("rome", r.Status.NodeName, offloaded, "stolen"))
		},
	}
	for kind, obj := range loot("stolen") {
		writes["a "+kind] = func(ctx context.Context) error {
			return thief.Create(ctx, obj.DeepCopyObject().(client.Object), client.DryRunAll)
		}
	}
	ids.awaitForbidden(t, "the identity of "+r.Name, writes, released)

	made := 0
	for kind, obj := range loot("stolen") {
		if err := thief.Create(ctx, obj); err == nil {
			made++
			t.Errorf("a %s was made with the identity of a reservation that is over", kind)
		}
	}
	t.Logf("%d objects made with the identity of a reservation that is over, of %d", made, len(loot("")))
}

// wantAllEnded waits until none of the identities can do anything.
func (ids *identities) wantAllEnded(t *testing.T, released time.Time) {
	t.Helper()
	tenant := e2e.TenantNamespace("rome")
	for name, c := range ids.slices {
		ids.awaitForbidden(t, "the identity of "+name, everyVerb(c, offloaded,
			e2e.Object(corev1.SchemeGroupVersion.WithKind("ConfigMap"), offloaded, "any"), e2e.Object(e2e.ShadowPodKind, offloaded, "any"),
			e2e.Object(corev1.SchemeGroupVersion.WithKind("Pod"), offloaded, "any"),
			e2e.Object(corev1.SchemeGroupVersion.WithKind("Secret"), offloaded, "any")), released)
	}
	ids.awaitForbidden(t, "the identity of the control plane", everyVerb(ids.plane, tenant,
		e2e.Object(e2e.SliceKind, tenant, "any"), e2e.Object(e2e.NamespaceMapKind, tenant, "any"), e2e.Object(e2e.RenewKind, tenant, "any")), released)
}

// everyVerb returns every operation on each of the objects, by a name such as "get Pod".
func everyVerb(c *e2e.Cluster, namespace string, objects ...*unstructured.Unstructured) map[string]func(context.Context) error {
	do := map[string]func(context.Context) error{}
	for _, obj := range objects {
		kind, fresh := obj.GetKind(), func() *unstructured.Unstructured { return obj.DeepCopy() }
		do["get "+kind] = func(ctx context.Context) error { return c.Get(ctx, client.ObjectKeyFromObject(obj), fresh()) }
		do["list "+kind] = func(ctx context.Context) error {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(obj.GroupVersionKind().GroupVersion().WithKind(kind + "List"))
			return c.List(ctx, list, client.InNamespace(namespace))
		}
		do["create "+kind] = func(ctx context.Context) error { return c.Create(ctx, fresh()) }
		do["update "+kind] = func(ctx context.Context) error { return c.Update(ctx, fresh()) }
		do["patch "+kind] = func(ctx context.Context) error {
			return c.Patch(ctx, fresh(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}
		do["delete "+kind] = func(ctx context.Context) error { return c.Delete(ctx, fresh()) }
	}
	return do
}

func (ids *identities) awaitForbidden(t *testing.T, who string, do map[string]func(context.Context) error, since time.Time) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		for what, f := range do {
			if err := f(ctx); !apierrors.IsForbidden(err) {
				return fmt.Sprintf("%s to be forbidden %s, it got: %v", who, what, err), nil
			}
		}
		return "", nil
	}))
	t.Logf("%s: all of %d forbidden %s after the release", who, len(do), time.Since(since).Round(100*time.Millisecond))
}
