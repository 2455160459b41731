package attacks

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// TestConsumerExceedsItsReservation uses the credentials that the consumer's control plane
// has at the provider to obtain more than was reserved.
func TestConsumerExceedsItsReservation(t *testing.T) {
	s := open(t)
	rome := s.attacker
	before, err := s.env.Granted(t.Context(), provider, "rome")
	check(t, err)
	if len(before) != 1 {
		t.Fatalf("%s grants rome %v, want one quota", provider, before)
	}
	much := map[string]any{"cpu": "1000", "memory": "4Ti"}
	create := func(name string, change func(slice *unstructured.Unstructured, spec map[string]any)) attack {
		return func(ctx context.Context) error {
			slice := rome.forge(t, name, func(map[string]any) {})
			change(slice, slice.Object["spec"].(map[string]any))
			return rome.plane.Create(ctx, slice)
		}
	}
	own := func(patch string) attack {
		return func(ctx context.Context) error {
			return rome.plane.Patch(ctx, e2e.Object(e2e.SliceKind, rome.office, rome.slice), merge(patch))
		}
	}
	status := func(kind, name, patch string) attack {
		gvk := e2e.SliceKind
		if kind == e2e.NamespaceMapKind.Kind {
			gvk = e2e.NamespaceMapKind
		}
		return func(ctx context.Context) error {
			return rome.plane.Status().Patch(ctx, e2e.Object(gvk, rome.office, name), merge(patch))
		}
	}
	refuseAll(t, map[string]attack{
		"a slice that no reservation stands behind": create("res-stolen0000-1", func(_ *unstructured.Unstructured, spec map[string]any) { spec["resources"] = much }),
		"a slice of class default":                  create("stolen", func(_ *unstructured.Unstructured, spec map[string]any) { spec["class"] = "default" }),
		"a slice without a class":                   create("stolen", func(_ *unstructured.Unstructured, spec map[string]any) { delete(spec, "class") }),
		"a slice in the name of another consumer":   create("stolen", func(_ *unstructured.Unstructured, spec map[string]any) { spec["consumerClusterID"] = "berlin" }),
		"a slice with the name of another's":        create(s.neighbour.slice, func(*unstructured.Unstructured, map[string]any) {}),
		"a slice in another tenant's namespace":     create(s.neighbour.slice, func(slice *unstructured.Unstructured, _ map[string]any) { slice.SetNamespace(s.neighbour.office) }),
		"a slice in a namespace of the provider":    create("stolen", func(slice *unstructured.Unstructured, _ map[string]any) { slice.SetNamespace("default") }),
		"a slice that is not a replica": create("stolen", func(slice *unstructured.Unstructured, _ map[string]any) {
			slice.SetLabels(map[string]string{"liqo.io/originID": "rome"})
		}),
		"a slice of another origin": create("stolen", func(slice *unstructured.Unstructured, _ map[string]any) {
			labels := slice.GetLabels()
			labels["liqo.io/originID"] = "berlin"
			slice.SetLabels(labels)
		}),
		"a slice that the provider would carry on": create("stolen", func(slice *unstructured.Unstructured, _ map[string]any) {
			labels := slice.GetLabels()
			labels["liqo.io/replication"] = "true"
			slice.SetLabels(labels)
		}),
		"another class for its own slice":              own(`{"spec":{"class":"default"}}`),
		"another consumer for its own slice":           own(`{"spec":{"consumerClusterID":"berlin"}}`),
		"a finalizer for its own slice":                own(`{"metadata":{"finalizers":["rome.example.com/stay"]}}`),
		"annotations of 250 kB for its own slice":      own(`{"metadata":{"annotations":{"a":"` + strings.Repeat("a", 250_000) + `"}}}`),
		"more in the status of its own slice":          status("ResourceSlice", rome.slice, `{"status":{"resources":{"cpu":"1000"}}}`),
		"a certificate in the status of its own slice": status("ResourceSlice", rome.slice, `{"status":{"authParams":{"apiServer":"https://rome.example.com"}}}`),
		"the status of its namespace map": status(e2e.NamespaceMapKind.Kind, rome.ownMap(t).GetName(),
			`{"status":{"currentMapping":{"kube-system":{"phase":"Accepted","remoteNamespace":"kube-system"}}}}`),
		"its Quota": func(ctx context.Context) error {
			return rome.plane.Patch(ctx, e2e.Object(e2e.QuotaKind, rome.office, rome.slice), merge(`{"spec":{"resources":{"cpu":"1000"}}}`))
		},
		"its Tenant": func(ctx context.Context) error {
			return rome.plane.Patch(ctx, e2e.Object(e2e.TenantKind, rome.office, "rome"), merge(`{"spec":{"authzPolicy":"TolerateNoHandshake"}}`))
		},
		"a Quota": func(ctx context.Context) error {
			return rome.plane.Create(ctx, e2e.Object(e2e.QuotaKind, rome.office, "stolen"))
		},
		"a VirtualNode": func(ctx context.Context) error {
			return rome.plane.Create(ctx, e2e.Object(e2e.VirtualNodeKind, rome.office, "stolen"))
		},
		"an Identity": func(ctx context.Context) error {
			return rome.plane.Create(ctx, e2e.Object(e2e.IdentityKind, rome.office, "stolen"))
		},
		"a ForeignCluster": func(ctx context.Context) error {
			return rome.plane.Create(ctx, e2e.Object(e2e.ForeignClusterKind, "", "stolen"))
		},
		"a RoleBinding": func(ctx context.Context) error {
			return rome.plane.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: named(rome.office, "stolen"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})
		},
		"a namespace": func(ctx context.Context) error {
			return rome.plane.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "stolen-rome"}})
		},
		"the provider's Secrets": func(ctx context.Context) error { return rome.plane.List(ctx, &corev1.SecretList{}) },
		"the provider's nodes":   func(ctx context.Context) error { return rome.plane.List(ctx, &corev1.NodeList{}) },
	})
	t.Run("more in the spec of its own slice changes nothing", func(t *testing.T) {
		slice := rome.ownSlice(t)
		_ = unstructured.SetNestedMap(slice.Object, much, "spec", "resources")
		if err := rome.plane.Update(t.Context(), slice); !apierrors.IsConflict(err) && err != nil {
			refused(t, err)
		}
	})
	t.Run("a slice that rome's Liqo sends itself", func(t *testing.T) { s.sendSlice(t, much) })
	after, err := s.env.Granted(t.Context(), provider, "rome")
	check(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("what %s grants rome (-before +after):\n%s", provider, diff)
	}
}

// sendSlice has rome's own Liqo request capacity that was not reserved. The provider must grant
// nothing.
func (s *scene) sendSlice(t *testing.T, much map[string]any) {
	t.Helper()
	slice := e2e.Object(e2e.SliceKind, e2e.TenantNamespace(provider), "stolen-at-home")
	slice.SetLabels(map[string]string{"liqo.io/remote-cluster-id": provider, "liqo.io/remoteID": provider, "liqo.io/replication": "true"})
	slice.Object["spec"] = map[string]any{"class": "broker", "providerClusterID": provider, "resources": much}
	check(t, s.attacker.home.Create(t.Context(), slice))
	t.Cleanup(func() { check(t, s.attacker.home.DeleteAndWait(context.Background(), slice, patience)) })
	replica := e2e.Object(e2e.SliceKind, s.attacker.office, "stolen-at-home")
	err := e2e.Await(t.Context(), 5*time.Second, func(ctx context.Context) (string, error) {
		return "", s.provider.Get(ctx, client.ObjectKeyFromObject(replica), replica)
	})
	if err == nil {
		check(t, s.provider.AwaitDenied(t.Context(), replica, patience))
	}
}

// TestNamespaceMapsStayTheConsumersOwn changes the NamespaceMap, in which the consumer's control
// plane names its namespaces at the provider.
func TestNamespaceMapsStayTheConsumersOwn(t *testing.T) {
	s := open(t)
	resume := s.pause(t, "rome", replicator)
	rome := s.attacker
	own := rome.ownMap(t)
	desire := func(key, value string) attack {
		return func(ctx context.Context) error {
			return rome.plane.Patch(ctx, e2e.Object(e2e.NamespaceMapKind, rome.office, own.GetName()),
				merge(fmt.Sprintf(`{"spec":{"desiredMapping":{%q:%q}}}`, key, value)))
		}
	}
	many := map[string]any{}
	for i := range 200 {
		many[nameOf("flood", i)] = nameOf("flood", i) + "-rome"
	}
	refuseAll(t, map[string]attack{
		"a namespace of the system":                  desire("kube-system", "kube-system"),
		"the namespace of another consumer":          desire("e2e", s.neighbour.landing),
		"the tenant namespace of another":            desire("x", s.neighbour.office),
		"the agent's namespace":                      desire("x", "liqo-resource-broker"),
		"a namespace without its suffix":             desire("x", "stolen"),
		"the tenant namespace of a peer yet to come": desire("liqo-tenant-north", "liqo-tenant-north-rome"),
		"two hundred namespaces": func(ctx context.Context) error {
			m := rome.ownMap(t)
			_ = unstructured.SetNestedMap(m.Object, many, "spec", "desiredMapping")
			return rome.plane.Update(ctx, m)
		},
		"a finalizer": func(ctx context.Context) error {
			return rome.plane.Patch(ctx, e2e.Object(e2e.NamespaceMapKind, rome.office, own.GetName()), merge(`{"metadata":{"finalizers":["rome.example.com/stay"]}}`))
		},
		"a map in another tenant's namespace": func(ctx context.Context) error {
			m := e2e.Object(e2e.NamespaceMapKind, s.neighbour.office, "stolen")
			m.SetLabels(own.GetLabels())
			return rome.plane.Create(ctx, m)
		},
		"a map that is not a replica": func(ctx context.Context) error {
			m := e2e.Object(e2e.NamespaceMapKind, rome.office, "stolen")
			m.SetLabels(map[string]string{"liqo.io/remote-cluster-id": "rome"})
			return rome.plane.Create(ctx, m)
		},
	})
	t.Run("many maps with many namespaces each", func(t *testing.T) { s.floodMaps(t, own) })
	resume()
}

// TestCollectionsOfOthersStay deletes whole collections of objects as a peer, which Liqo's roles
// allow. The objects that the provider itself keeps in the peer's tenant namespace must stay.
func TestCollectionsOfOthersStay(t *testing.T) {
	s := open(t)
	s.pause(t, "rome", replicator)
	own := e2e.Object(e2e.NamespaceMapKind, s.attacker.office, "of-the-provider")
	own.Object["spec"] = map[string]any{"desiredMapping": map[string]any{}}
	check(t, s.provider.Create(t.Context(), own))
	t.Cleanup(func() { check(t, s.provider.DeleteAndWait(context.Background(), own, patience)) })
	for what, kind := range map[string]schema.GroupVersionKind{"namespace maps": e2e.NamespaceMapKind, "slices": e2e.SliceKind, "renewals": e2e.RenewKind} {
		t.Run(what, func(t *testing.T) {
			for _, of := range []*tenant{s.attacker, s.neighbour} {
				err := s.attacker.plane.DeleteAllOf(t.Context(), e2e.Object(kind, "", ""), client.InNamespace(of.office), client.MatchingLabels{"liqo.io/originID": "nobody"})
				if of == s.neighbour {
					refused(t, err)
				}
			}
		})
	}
	refused(t, s.attacker.plane.Delete(t.Context(), own.DeepCopy()))
	if err := s.attacker.plane.DeleteAllOf(t.Context(), e2e.Object(e2e.NamespaceMapKind, "", ""), client.InNamespace(s.attacker.office),
		client.MatchingFields{"metadata.name": own.GetName()}); err == nil {
		t.Error("a collection with an object of the provider was deleted")
	}
	check(t, s.provider.Get(t.Context(), client.ObjectKeyFromObject(own), own))
}

// floodMaps tries to create many NamespaceMaps, and fails the test if all of them are accepted:
// their number must be bounded.
func (s *scene) floodMaps(t *testing.T, own *unstructured.Unstructured) {
	t.Helper()
	const tries = 40
	taken := 0
	for i := range tries {
		m := e2e.Object(e2e.NamespaceMapKind, s.attacker.office, nameOf("stolen", i))
		m.SetLabels(own.GetLabels())
		m.Object["spec"] = map[string]any{"desiredMapping": map[string]any{nameOf("flood", i): nameOf("flood", i) + "-rome"}}
		if err := s.attacker.plane.Create(t.Context(), m); err != nil {
			refused(t, err)
			continue
		}
		taken++
		t.Cleanup(func() { check(t, s.provider.DeleteAndWait(context.Background(), m, patience)) })
	}
	if taken == tries {
		t.Errorf("%d namespace maps were taken", taken)
	}
}
