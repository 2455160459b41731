package guardtest

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// named is a reference to the object whose name the tests give to objects of the provider.
func named(more ...string) map[string]any {
	ref := map[string]any{"name": "app"}
	for i := 0; i < len(more); i += 2 {
		ref[more[i]] = more[i+1]
	}
	return ref
}

func fromEnv(source string) change {
	return inContainer([]any{map[string]any{"name": "A", "valueFrom": map[string]any{source: named("key", "a")}}}, "env")
}

// uses are the ways in which a pod uses a ConfigMap, Secret or claim named app, by kind.
var uses = map[string]map[string]change{
	"ConfigMap": {
		"a volume":           volume("configMap", named()),
		"a projected volume": projected("configMap", named()),
		"envFrom":            inContainer([]any{map[string]any{"configMapRef": named()}}, "envFrom"),
		"a variable":         fromEnv("configMapKeyRef"),
		"an init container":  inits(container("first", map[string]any{"envFrom": []any{map[string]any{"configMapRef": named()}}})),
		"an optional volume": volume("configMap", map[string]any{"name": "app", "optional": true}),
	},
	"Secret": {
		"a volume":           volume("secret", map[string]any{"secretName": "app"}),
		"a projected volume": projected("secret", named()),
		"envFrom":            inContainer([]any{map[string]any{"secretRef": named()}}, "envFrom"),
		"a variable":         fromEnv("secretKeyRef"),
		"a pull secret":      set([]any{named()}, "imagePullSecrets"),
	},
	"PersistentVolumeClaim": {
		"a volume": volume("persistentVolumeClaim", map[string]any{"claimName": "app"}),
	},
}

func (c *cluster) testPodsUseOnlyObjectsOfTheirCluster() {
	c.Helper()
	s := c.openSite("foreign", `{guard: {ingress: {hosts: [shop.example.com], classes: [nginx]}}}`)
	claimed := &corev1.PersistentVolumeClaim{}
	s.check(yaml.Unmarshal([]byte(claim("1Gi", "")), claimed))
	for kind, ours := range map[string]client.Object{"ConfigMap": &corev1.ConfigMap{}, "Secret": &corev1.Secret{}, "PersistentVolumeClaim": claimed} {
		create := func(change change) error {
			return s.peer.Create(s.Context(), s.shadowPod("pod", change), client.DryRunAll)
		}
		for how, change := range uses[kind] {
			s.check(create(change))
			_ = how
		}
		ours.SetNamespace(s.namespace)
		ours.SetName("app")
		s.create(ours)
		want := fmt.Sprintf("%s app in namespace foreign-rome was not reflected from cluster rome: use another name, or", kind)
		for how, change := range uses[kind] {
			s.await(want, func() error { return create(change) })
			s.wantRefused(kind+" in "+how, want, create(change))
		}
		if kind == "Secret" {
			shop := &unstructured.Unstructured{}
			s.check(yaml.Unmarshal([]byte(ingress("shop.example.com", "nginx", "tls: [{hosts: [shop.example.com], secretName: app}]")), &shop.Object))
			shop.SetNamespace(s.namespace)
			shop.SetName("shop")
			s.wantRefused("an Ingress", want, s.peer.Create(s.Context(), shop, client.DryRunAll))
		}
		s.check(create(set("Never", "restartPolicy"))) // a pod that uses none of them
		// The operator lends the object, copies that of another consumer, and deletes it at last.
		ours.SetLabels(map[string]string{"offloading.liqo.io/origin": consumer})
		s.check(s.Update(s.Context(), ours))
		s.await("", func() error { return create(uses[kind]["a volume"]) })
		ours.SetLabels(map[string]string{"offloading.liqo.io/origin": "milan"})
		s.check(s.Update(s.Context(), ours))
		s.await(want, func() error { return create(uses[kind]["a volume"]) })
		ours.SetFinalizers(nil) // that of the protection of claims, which no controller removes here
		s.check(s.Update(s.Context(), ours))
		s.check(s.Delete(s.Context(), ours))
		s.await("", func() error { return create(uses[kind]["a volume"]) })
	}
	s.testForeignServices()
	// The volume that API servers add to every pod has the name of a ConfigMap that each namespace has.
	s.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "kube-root-ca.crt"}})
	root := map[string]any{"name": "kube-root-ca.crt"}
	s.await("ConfigMap kube-root-ca.crt", func() error {
		return s.peer.Create(s.Context(), s.shadowPod("pod", projected("configMap", root)), client.DryRunAll)
	})
	s.check(s.peer.Create(s.Context(), s.shadowPod("pod", set([]any{map[string]any{
		"name": "kube-api-access-x", "projected": map[string]any{"sources": []any{map[string]any{"configMap": root}}},
	}}, "volumes"))))
}

// testForeignServices lets a consumer's endpoints and Ingress use a Service of the provider.
func (s *site) testForeignServices() {
	s.Helper()
	const want = "Service app in namespace foreign-rome was not reflected from cluster rome: use another name, or"
	create := func(text string, label string) error {
		obj := &unstructured.Unstructured{}
		s.check(yaml.Unmarshal([]byte(text), &obj.Object))
		obj.SetNamespace(s.namespace)
		obj.SetName("app-x1")
		if label != "" {
			obj.SetLabels(map[string]string{"kubernetes.io/service-name": label})
		}
		return s.peer.Create(s.Context(), obj, client.DryRunAll)
	}
	uses := map[string]func() error{
		"endpoints": func() error { return create(shadowSlice("10.0.0.7"), "app") },
		"an Ingress": func() error {
			return create(strings.Replace(ingress("shop.example.com", "nginx", ""), "name: web", "name: app", 1), "")
		},
	}
	for _, use := range uses {
		s.check(use())
	}
	ours := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "app"}, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	s.create(ours)
	for how, use := range uses {
		s.await(want, use)
		s.wantRefused(how, want, use())
	}
	s.check(create(shadowSlice("10.0.0.7"), "another"))
	s.check(create(ingress("shop.example.com", "nginx", ""), ""))
	honest := &unstructured.Unstructured{}
	s.check(yaml.Unmarshal([]byte(shadowSlice("10.0.0.7")), &honest.Object))
	honest.SetNamespace(s.namespace)
	honest.SetName("moves")
	s.check(s.peer.Create(s.Context(), honest))
	honest.SetLabels(map[string]string{"kubernetes.io/service-name": "app"})
	s.wantRefused("endpoints that move", want, s.peer.Update(s.Context(), honest))
	ours.SetLabels(map[string]string{"offloading.liqo.io/origin": consumer})
	s.check(s.Update(s.Context(), ours))
	for _, use := range uses {
		s.await("", use)
	}
}

// await waits until an attempt fails with an error that contains want, or succeeds if want is empty:
// the API server learns of objects that policies read a moment later.
func (s *site) await(want string, attempt func() error) {
	s.Helper()
	var last error
	err := wait.PollUntilContextTimeout(s.Context(), 20*time.Millisecond, hangLimit, true, func(context.Context) (bool, error) {
		last = attempt()
		return (last == nil) == (want == "") && strings.Contains(fmt.Sprint(last), want), nil
	})
	if err != nil {
		s.Fatalf("got %v, want %q", last, want)
	}
}
