package local

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
)

// TestHelmTestPassesForEveryRelease runs helm test for broker and agents.
func TestHelmTestPassesForEveryRelease(t *testing.T) {
	env := playgroundOf(t)
	for _, name := range env.Playground.Names() {
		t.Run(name, func(t *testing.T) {
			said, err := env.Product.Release(name).Test(t.Context())
			check(t, err)
			t.Log(said)
			for line := range strings.Lines(said) {
				if strings.HasPrefix(line, "warn") {
					t.Errorf("nothing is wrong, and it warns: %s", line)
				}
			}
		})
	}
}

// TestUninstall checks that helm uninstall refuses while reservations live, and that it ends them with the policy
// Drain. It leaves only what the charts keep: the journal with its accounts, history and signed heads, and
// credentials that an administrator created. Afterwards everything is installed again with the kept journal.
func TestUninstall(t *testing.T) {
	env := playgroundOf(t)
	rome := env.Member("rome")
	t.Cleanup(func() { reinstall(t, env) })
	r, _ := readyRequest(t, rome, "in-use", small())
	pods := run(t, env, rome, r)

	for _, name := range []string{"broker", "rome", r.Status.TargetClusterID} {
		err := env.Product.Release(name).Uninstall(t.Context())
		if err == nil || !strings.Contains(err.Error(), r.Status.ReservationName) {
			t.Fatalf("uninstalling %s: got %v, want it refused for %s", name, err, r.Status.ReservationName)
		}
	}
	check(t, rome.AwaitReady(t.Context(), r, e2e.Once))
	check(t, pods.Unchanged(t.Context()))
	check(t, rome.DeleteDeployments(t.Context(), namespace))

	for _, name := range []string{"rome", "paris", "berlin", "broker"} {
		values := env.Product.Values(name)
		values["uninstall"] = map[string]any{"policy": "Drain"}
		check(t, env.Product.Upgrade(t.Context(), name, values))
		check(t, env.Product.Release(name).Uninstall(t.Context()))
	}
	check(t, env.AwaitClean(t.Context(), patience))
	ofJournal := regexp.MustCompile("^ConfigMap liqo-resource-broker-(journal|checkpoint|accounts|history|head)-")
	var journal, others []string
	for _, l := range leftBehind(t, env.Broker) {
		if ofJournal.MatchString(l) {
			journal = append(journal, l)
		} else {
			others = append(others, l)
		}
	}
	if len(journal) == 0 || len(others) > 0 {
		t.Errorf("left in the broker's cluster: %q of the journal, want it kept, and %q, want nothing else", journal, others)
	}
	for _, c := range env.Members {
		var want []string
		if c.Name == "berlin" {
			want = []string{"Secret " + product.Carried} // created by the administrator
		}
		if diff := cmp.Diff(want, leftBehind(t, c)); diff != "" {
			t.Errorf("left in %s (-want +got):\n%s", c.Name, diff)
		}
	}
}

func reinstall(t *testing.T, env *Environment) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // the test's context has ended
	defer cancel()
	check(t, env.Product.Install(ctx))
	check(t, env.AwaitAdvertised(ctx, patience))
}

// leftBehind returns the names of a release's remaining objects, without CRDs and their objects.
func leftBehind(t *testing.T, c *e2e.Cluster) []string {
	t.Helper()
	var left []string
	for _, list := range []client.ObjectList{
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &corev1.ServiceList{},
		&rbacv1.RoleList{}, &rbacv1.RoleBindingList{},
		kindList("cert-manager.io", "v1", "Certificate"), kindList("cert-manager.io", "v1", "CertificateRequest"),
		kindList("cert-manager.io", "v1", "Issuer"), kindList("coordination.k8s.io", "v1", "Lease"),
		kindList("networking.k8s.io", "v1", "NetworkPolicy"), kindList("policy", "v1", "PodDisruptionBudget"),
	} {
		check(t, c.List(t.Context(), list, client.InNamespace(product.Namespace)))
		left = append(left, names(t, c, list)...)
	}
	for _, list := range []client.ObjectList{
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{},
		kindList("admissionregistration.k8s.io", "v1", "ValidatingWebhookConfiguration"),
		kindList("admissionregistration.k8s.io", "v1", "MutatingWebhookConfiguration"),
		kindList("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy"),
		kindList("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicyBinding"),
	} {
		check(t, c.List(t.Context(), list, client.MatchingLabels{"app.kubernetes.io/part-of": "liqo-resource-broker"}))
		left = append(left, names(t, c, list)...)
	}
	slices.Sort(left)
	return left
}

func kindList(group, version, kind string) *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: group, Version: version, Kind: kind + "List"})
	return list
}

// names returns the names of objects, without those that every namespace has.
func names(t *testing.T, c *e2e.Cluster, list client.ObjectList) []string {
	t.Helper()
	items, err := meta.ExtractList(list)
	check(t, err)
	var out []string
	for _, item := range items {
		obj := item.(metav1.Object)
		gvk, err := c.GroupVersionKindFor(item)
		check(t, err)
		switch kind := gvk.Kind; fmt.Sprintf("%s %s", kind, obj.GetName()) {
		case "ConfigMap kube-root-ca.crt", "ServiceAccount default":
		default:
			out = append(out, fmt.Sprintf("%s %s", kind, obj.GetName()))
		}
	}
	return out
}
