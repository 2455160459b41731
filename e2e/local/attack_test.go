package local

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// The consumer's Liqo has credentials at the provider. Here they are in the hands of
// somebody who wants more than was reserved.
func TestAConsumerThatWantsMoreThanIsReserved(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	r, _ := ready(t, rome, "honest", small())
	provider := r.Status.TargetClusterID
	thief, err := env.Identity(ctx, "rome", provider)
	check(t, err)
	before, err := env.Granted(ctx, provider, "rome")
	check(t, err)
	if len(before) != 1 {
		t.Fatalf("%s grants rome %v, want one quota", provider, before)
	}

	home := e2e.TenantNamespace("rome")
	own := func() *unstructured.Unstructured {
		slice := e2e.Object(e2e.SliceKind, home, r.Status.NodeName)
		check(t, thief.Get(ctx, client.ObjectKeyFromObject(slice), slice))
		return slice
	}
	// forged is a slice like rome's own, with changes.
	forged := func(name string, change func(spec map[string]any)) *unstructured.Unstructured {
		genuine := own()
		slice := e2e.Object(e2e.SliceKind, home, name)
		slice.SetLabels(genuine.GetLabels())
		spec := genuine.Object["spec"].(map[string]any)
		change(spec)
		slice.Object["spec"] = spec
		return slice
	}
	much := map[string]any{"cpu": "1000", "memory": "4Ti"}
	mapping := func() *unstructured.Unstructured {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(e2e.NamespaceMapKind)
		check(t, thief.List(ctx, list, client.InNamespace(home)))
		if len(list.Items) != 1 {
			t.Fatalf("%d namespace maps in %s, want 1", len(list.Items), provider)
		}
		return &list.Items[0]
	}
	attacks := map[string]func(context.Context) error{
		"a slice of class default": func(ctx context.Context) error {
			return thief.Create(ctx, forged("stolen-default", func(spec map[string]any) { spec["class"] = "default" }))
		},
		"a slice without a class": func(ctx context.Context) error {
			return thief.Create(ctx, forged("stolen-classless", func(spec map[string]any) { delete(spec, "class") }))
		},
		"another class for its own slice": func(ctx context.Context) error {
			slice := own()
			_ = unstructured.SetNestedField(slice.Object, "default", "spec", "class")
			return thief.Update(ctx, slice)
		},
		"more in the status of its own slice": func(ctx context.Context) error {
			slice := own()
			_ = unstructured.SetNestedMap(slice.Object, much, "status", "resources")
			return thief.Status().Update(ctx, slice)
		},
		"a slice in the name of another consumer": func(ctx context.Context) error {
			return thief.Create(ctx, forged("stolen-identity", func(spec map[string]any) { spec["consumerClusterID"] = "nobody" }))
		},
		"another consumer for its own slice": func(ctx context.Context) error {
			slice := own()
			_ = unstructured.SetNestedField(slice.Object, "nobody", "spec", "consumerClusterID")
			return thief.Update(ctx, slice)
		},
		"a namespace that is not its own": func(ctx context.Context) error {
			m := mapping()
			_ = unstructured.SetNestedField(m.Object, "kube-system", "spec", "desiredMapping", "kube-system")
			return thief.Update(ctx, m)
		},
		"the status of its namespace map": func(ctx context.Context) error {
			m := mapping()
			current := map[string]any{"phase": "Accepted", "remoteNamespace": "kube-system"}
			_ = unstructured.SetNestedMap(m.Object, current, "status", "currentMapping", "kube-system")
			return thief.Status().Update(ctx, m)
		},
		"a slice in another tenant's namespace": func(ctx context.Context) error {
			slice := forged("stolen-elsewhere", func(map[string]any) {})
			slice.SetNamespace("default")
			return thief.Create(ctx, slice)
		},
		"the provider's Secrets": func(ctx context.Context) error { return thief.List(ctx, &corev1.SecretList{}) },
		"the provider's pods":    func(ctx context.Context) error { return thief.List(ctx, &corev1.PodList{}) },
	}
	for name, attack := range attacks {
		t.Run(name, func(t *testing.T) { refused(t, attack(ctx)) })
	}

	attackWithSlice(t, env, provider, r.Status.NodeName)
	t.Run("a namespace map from before there was a guard is mended", func(t *testing.T) {
		m := mapping()
		check(t, env.Member(provider).Patch(ctx, m, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"rome"}}}`))))
		check(t, e2e.Await(ctx, 20*time.Second, func(ctx context.Context) (string, error) {
			err := env.Member(provider).Get(ctx, client.ObjectKeyFromObject(m), m)
			if _, labelled := m.GetLabels()["liqo.io/remote-cluster-id"]; labelled {
				return "the label to be taken off", err
			}
			return "", err
		}))
	})

	t.Run("a slice that no reservation stands behind gets nothing", func(t *testing.T) {
		slice := forged("stolen-slice", func(spec map[string]any) { spec["resources"] = much })
		check(t, thief.Create(ctx, slice))
		t.Cleanup(func() { check(t, thief.DeleteAndWait(context.Background(), slice, time.Minute)) })
		check(t, thief.AwaitDenied(ctx, slice, 20*time.Second))
	})
	t.Run("nor does one that rome's Liqo sends itself", func(t *testing.T) {
		slice := e2e.Object(e2e.SliceKind, e2e.TenantNamespace(provider), "stolen-at-home")
		slice.SetLabels(map[string]string{
			"liqo.io/remote-cluster-id": provider, "liqo.io/remoteID": provider, "liqo.io/replication": "true",
		})
		slice.Object["spec"] = map[string]any{"class": "broker", "providerClusterID": provider, "resources": much}
		check(t, rome.Create(ctx, slice))
		t.Cleanup(func() { check(t, rome.DeleteAndWait(context.Background(), slice, time.Minute)) })
		check(t, rome.AwaitDenied(ctx, slice, 20*time.Second))
	})
	t.Run("more in the spec of its own slice changes nothing", func(t *testing.T) {
		slice := own()
		_ = unstructured.SetNestedMap(slice.Object, much, "spec", "resources")
		if err := thief.Update(ctx, slice); !apierrors.IsConflict(err) {
			check(t, err)
		}
	})

	after, err := env.Granted(ctx, provider, "rome")
	check(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("what %s grants rome (-before +after):\n%s", provider, diff)
	}
}

// refused fails unless the API server forbade something, by right or by policy.
func refused(t *testing.T, err error) {
	t.Helper()
	byPolicy := apierrors.IsInvalid(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
	if !byPolicy && !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want it forbidden", err)
	}
}

// What broker and agents run with is worth nothing in another cluster, and not much
// in their own.
func TestRightsEndAtTheClusterAndBeforeItsSecrets(t *testing.T) {
	env := playgroundOf(t)
	ctx := t.Context()
	clusters := map[string]*e2e.Cluster{"broker": env.Broker, "rome": env.Member("rome"), "paris": env.Member("paris")}
	for who := range clusters {
		config, err := clientcmd.BuildConfigFromFlags("", env.Product.Kubeconfig(who))
		check(t, err)
		for where, cluster := range clusters {
			if where == who {
				continue
			}
			t.Run(who+" in "+where, func(t *testing.T) {
				there := rest.CopyConfig(config)
				there.Host, there.TLSClientConfig = cluster.Config.Host, rest.TLSClientConfig{CAData: cluster.Config.CAData, CAFile: cluster.Config.CAFile}
				stranger, err := client.New(there, client.Options{})
				if err == nil { // discovery may be refused already
					err = stranger.Get(ctx, client.ObjectKey{Name: "default"}, &corev1.Namespace{})
				}
				if !apierrors.IsUnauthorized(err) && !apierrors.IsForbidden(err) {
					t.Errorf("got %v, want unauthorized", err)
				}
			})
		}
		t.Run(who+" at home", func(t *testing.T) {
			at, err := client.New(config, client.Options{})
			check(t, err)
			refused(t, at.List(ctx, &corev1.SecretList{}))
			refused(t, at.List(ctx, &corev1.SecretList{}, client.InNamespace("kube-system")))
			refused(t, at.Get(ctx, client.ObjectKey{Namespace: "default", Name: "any"}, &corev1.Secret{}))
			refused(t, at.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "any"}}))
			refused(t, at.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "any"}}))
			refused(t, at.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
			bystander := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "bystander"},
				Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "pause"}}},
			}
			check(t, clusters[who].Create(ctx, bystander))
			refused(t, at.Delete(ctx, bystander))
			check(t, clusters[who].Delete(ctx, bystander, client.GracePeriodSeconds(0)))
		})
	}
}
