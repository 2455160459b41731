package attacks

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
)

// shadowSliceKind is Liqo's kind for endpoints that a consumer reflects.
var shadowSliceKind = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "ShadowEndpointSlice"}

// TestObjectsThatReachFurtherAreRefused uses a slice's credentials to create objects whose effect
// goes beyond the consumer's pods.
func TestObjectsThatReachFurtherAreRefused(t *testing.T) {
	s := open(t)
	c := s.attacker
	create := func(obj client.Object) attack {
		return func(ctx context.Context) error {
			err := c.kubelet.Create(ctx, obj)
			if err == nil {
				_ = s.provider.Delete(context.Background(), obj)
			}
			return err
		}
	}
	service := func(change func(spec *corev1.ServiceSpec)) attack {
		svc := &corev1.Service{ObjectMeta: named(c.landing, "stolen"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		change(&svc.Spec)
		return create(svc)
	}
	claim := func(size string, change func(spec *corev1.PersistentVolumeClaimSpec)) attack {
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: named(c.landing, "stolen"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		}}
		change(&pvc.Spec)
		return create(pvc)
	}
	ingress := &networkingv1.Ingress{ObjectMeta: named(c.landing, "stolen"), Spec: networkingv1.IngressSpec{
		Rules: []networkingv1.IngressRule{{Host: "bank.example.com"}},
	}}
	endpoints := e2e.Object(shadowSliceKind, c.landing, "stolen")
	endpoints.Object["spec"] = map[string]any{"template": map[string]any{
		"addressType": "IPv4", "endpoints": []any{map[string]any{"addresses": []any{"169.254.169.254"}}},
		"ports": []any{map[string]any{"port": int64(80)}},
	}}
	held := func(obj client.Object) attack {
		obj.SetNamespace(c.landing)
		obj.SetName("held")
		obj.SetFinalizers([]string{heldBy})
		return func(ctx context.Context) error {
			err := c.kubelet.Create(ctx, obj)
			if err == nil {
				obj.SetFinalizers(nil)
				check(t, s.provider.Update(context.Background(), obj))
				check(t, client.IgnoreNotFound(s.provider.Delete(context.Background(), obj)))
			}
			return err
		}
	}
	refuseAll(t, map[string]attack{
		"a Service that takes the traffic of other addresses": service(func(spec *corev1.ServiceSpec) { spec.ExternalIPs = []string{"8.8.8.8"} }),
		"a Service with a port on every node":                 service(func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort }),
		"a load balancer":                                     service(func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeLoadBalancer }),
		"a Service that is another name": service(func(spec *corev1.ServiceSpec) {
			spec.Type, spec.ExternalName = corev1.ServiceTypeExternalName, "kubernetes.default.svc"
		}),
		"an Ingress for any host":             create(ingress),
		"endpoints at the metadata service":   create(endpoints),
		"a claim of a pebibyte":               claim("1Pi", func(*corev1.PersistentVolumeClaimSpec) {}),
		"a claim of a volume of the provider": claim("1Gi", func(spec *corev1.PersistentVolumeClaimSpec) { spec.VolumeName = "vault" }),
		"a claim of a block device": claim("1Gi", func(spec *corev1.PersistentVolumeClaimSpec) {
			block := corev1.PersistentVolumeBlock
			spec.VolumeMode = &block
		}),
		"a token of a ServiceAccount": create(&corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: c.landing, Name: "stolen", Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}),
		"a ConfigMap that nobody can delete": held(&corev1.ConfigMap{}),
		"a Secret that nobody can delete":    held(&corev1.Secret{}),
		"a Service that nobody can delete":   held(&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}),
		"an Event": create(&corev1.Event{
			ObjectMeta: named(c.landing, "stolen"), InvolvedObject: corev1.ObjectReference{Namespace: c.landing, Kind: "Pod", Name: "any"}, Reason: "Stolen",
		}),
		"a ServiceAccount": create(&corev1.ServiceAccount{ObjectMeta: named(c.landing, "stolen")}),
		"the quota of its namespace": func(ctx context.Context) error {
			return c.kubelet.DeleteAllOf(ctx, &corev1.ResourceQuota{}, client.InNamespace(c.landing))
		},
		"the ConfigMaps of the whole cluster": func(ctx context.Context) error { return c.kubelet.List(ctx, &corev1.ConfigMapList{}) },
		"a note in a namespace of the provider": func(ctx context.Context) error {
			return c.kubelet.Create(ctx, e2etest.Note("default", "stolen"))
		},
	})
}

// TestObjectsCannotFillTheProvider checks that the number of objects is bounded, because objects
// cost the provider memory and disk.
func TestObjectsCannotFillTheProvider(t *testing.T) {
	const tries = 3000
	kinds := map[string]func(name string) client.Object{
		"ConfigMaps": func(name string) client.Object { return e2etest.Note("", name) },
		"Secrets":    func(name string) client.Object { return &corev1.Secret{ObjectMeta: named("", name)} },
		"Services": func(name string) client.Object {
			return &corev1.Service{ObjectMeta: named("", name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
		},
	}
	s := open(t)
	for kind, of := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Cleanup(func() {
				check(t, s.provider.DeleteAllOf(context.Background(), of("any"), client.InNamespace(s.attacker.landing), client.MatchingLabels{"flood": "yes"}))
			})
			for i := range tries {
				obj := of(nameOf("flood", i))
				obj.SetNamespace(s.attacker.landing)
				obj.SetLabels(map[string]string{"flood": "yes"})
				if err := s.attacker.kubelet.Create(t.Context(), obj); err != nil {
					refused(t, err)
					t.Logf("refused after %d: %v", i, err)
					return
				}
			}
			t.Errorf("%d %s were taken", tries, kind)
		})
	}
	t.Run("ConfigMaps of a megabyte each", func(t *testing.T) { s.floodBytes(t, 1_000_000) })
	t.Run("ConfigMaps of half a megabyte each", func(t *testing.T) { s.floodBytes(t, 500_000) })
}

// floodBytes fills ConfigMaps of the given size until one is refused. A namespace may hold at most
// 64 MB of them.
func (s *scene) floodBytes(t *testing.T, size int) {
	t.Helper()
	t.Cleanup(func() {
		check(t, s.provider.DeleteAllOf(context.Background(), &corev1.ConfigMap{}, client.InNamespace(s.attacker.landing), client.MatchingLabels{"flood": "yes"}))
	})
	const most = 64_000_000
	large := strings.Repeat("x", size)
	for written := 0; written < most; written += size {
		cm := e2etest.Note(s.attacker.landing, nameOf("large", written/size))
		cm.Labels, cm.Data = map[string]string{"flood": "yes"}, map[string]string{"x": large}
		if err := s.attacker.kubelet.Create(t.Context(), cm); err != nil {
			refused(t, err)
			t.Logf("refused after %d bytes: %v", written, err)
			return
		}
	}
	t.Errorf("%d bytes were taken", most)
}
