package guardtest

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// reservedLabels are labels by which Liqo finds its own objects, and one that it may select by in the future.
var reservedLabels = []string{
	"liqo.io/identity-type", "liqo.io/nonce", "liqo.io/remote-cluster-id", "liqo.io/replication", "liqo.io/signed-nonce", "liqo.io/some-day",
	"liqo.io/virtual-node", "liqo.io/webhook", "networking.liqo.io/active", "networking.liqo.io/gateway-resource", "offloading.liqo.io/component",
}

// testKeysOfLiqo writes, as the consumer, objects with labels and annotations of Liqo.
func (s *site) testKeysOfLiqo() {
	s.Helper()
	kinds := map[string]func() *unstructured.Unstructured{
		"Secret":    func() *unstructured.Unstructured { return s.object("v1", "Secret", "labelled") },
		"ConfigMap": func() *unstructured.Unstructured { return s.object("v1", "ConfigMap", "labelled") },
		"Service": func() *unstructured.Unstructured {
			obj := s.object("v1", "Service", "labelled")
			obj.Object["spec"] = map[string]any{"ports": []any{map[string]any{"port": int64(80)}}}
			return obj
		},
		"ShadowPod": func() *unstructured.Unstructured { return s.shadowPod("labelled") },
		"ShadowEndpointSlice": func() *unstructured.Unstructured {
			obj := s.object("offloading.liqo.io/v1beta1", "ShadowEndpointSlice", "labelled")
			obj.Object["spec"] = map[string]any{"template": map[string]any{"addressType": "IPv4", "endpoints": []any{}}}
			return obj
		},
	}
	for kind, make := range kinds {
		for _, key := range append([]string{"liqo.io/remote-tenant-namespace", "liqo.io/shadowPod", "liqo.io/webhook-service-name"}, reservedLabels...) {
			want := "has " + key + ", by which Liqo finds its own objects"
			labelled, annotated := make(), make()
			labelled.SetLabels(with(labelled.GetLabels(), key))
			annotated.SetAnnotations(with(nil, key))
			s.wantRefused(kind+" with label "+key, want, s.peer.Create(s.Context(), labelled, client.DryRunAll))
			s.wantRefused(kind+" with annotation "+key, want, s.peer.Create(s.Context(), annotated, client.DryRunAll))
		}
		// What virtual kubelets write, and what users may tell their own.
		honest := make()
		honest.SetLabels(with(honest.GetLabels(), "offloading.liqo.io/destination", "liqo.io/remote-unavailable", "app.kubernetes.io/name", "liqo.io.example.com/a"))
		honest.SetAnnotations(with(nil, "liqo.io/skip-reflection", "liqo.io/allow-reflection", "liqo.io/anti-affinity-preset", "liqo.io/force-remote-node-port",
			"liqo.io/direct-connections-data", "offloading.liqo.io/service-account-expiration"))
		if kind != "Service" { // whose annotations have a list of their own, guard.serviceAnnotations
			honest.SetAnnotations(with(honest.GetAnnotations(), "example.com/liqo.io", "notliqo.io/a"))
		}
		if err := s.peer.Create(s.Context(), honest, client.DryRunAll); err != nil {
			s.Errorf("%s of a virtual kubelet: %v", kind, err)
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "relabelled"}}
	s.check(s.peer.Create(s.Context(), secret))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/webhook":"true"}}}`))
	s.wantRefused("a Secret that becomes one of Liqo's", "has liqo.io/webhook", s.peer.Patch(s.Context(), secret, patch))
}

// with returns a map with more keys.
func with(m map[string]string, keys ...string) map[string]string {
	all := map[string]string{}
	for k, v := range m {
		all[k] = v
	}
	for _, key := range keys {
		all[key] = "true"
	}
	return all
}

// Users and controllers that may write in one namespace.
const (
	developer  = "developer"
	liqo       = "system:serviceaccount:liqo:liqo-controller-manager"
	agent      = "system:serviceaccount:liqo-resource-broker:agent-liqo-resource-broker-agent"
	controller = "system:serviceaccount:kube-system:replicaset-controller"
)

// TestLabelsOfLiqoStayWithLiqo shows that nobody with rights in one namespace writes objects that Liqo takes for its
// own. There is neither an agent nor an Advertisement.
func TestLabelsOfLiqoStayWithLiqo(t *testing.T) {
	c := startCluster(t)
	c.installLabels()
	c.create(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "editor"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "apps"}, Resources: []string{"secrets", "pods", "deployments"}, Verbs: []string{"*"}},
	}})
	users := map[string]client.Client{}
	for _, user := range []string{developer, liqo, agent, controller} {
		var groups []string
		if parts := strings.Split(user, ":"); len(parts) == 4 {
			groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + parts[2]}
		}
		users[user] = c.as(user, groups...)
	}
	for namespace, labels := range map[string]map[string]string{
		"team": nil, "liqo": nil,
		"team-rome":        {"liqo.io/remote-cluster-id": consumer},
		"liqo-tenant-rome": {"liqo.io/remote-cluster-id": consumer, "liqo.io/tenant-namespace": "true"},
	} {
		c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: labels}})
		c.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})
		for user := range users {
			c.create(&rbacv1.RoleBinding{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: strings.ReplaceAll(user, ":", "-")},
				RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "editor"},
				Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
			})
		}
	}
	controlplanetest.AwaitPolicies(c.T, c.Client)
	const foreign, secretOfLiqo = "is reserved for objects of Liqo", "only Liqo, the agent and cluster administrators may write it"
	for _, namespace := range []string{"team", "team-rome"} {
		for user, as := range users {
			for _, kind := range []string{"Secret", "Pod", "Deployment"} {
				for _, key := range reservedLabels {
					what := fmt.Sprintf("%s with %s in %s, written by %s", kind, key, namespace, user)
					c.wantRefused(what, "label "+key+" "+foreign, as.Create(t.Context(), labelledObject(kind, namespace, key), client.DryRunAll))
				}
				honest := labelledObject(kind, namespace, "offloading.liqo.io/origin", "liqo.io/managed-by", "liqo.io/creator-user", "app.kubernetes.io/name")
				if err := as.Create(t.Context(), honest, client.DryRunAll); err != nil {
					t.Errorf("%s in %s without a label of Liqo's own, written by %s: %v", kind, namespace, user, err)
				}
			}
		}
		// Cluster administrators may not either, so that software which deploys for users does not help them.
		c.wantRefused("an administrator's Secret in "+namespace, foreign, c.Create(t.Context(), labelledObject("Secret", namespace, "liqo.io/webhook"), client.DryRunAll))
	}
	c.check(users[controller].Create(t.Context(), labelledObject("Pod", "team", "liqo.io/shadowPod"), client.DryRunAll))
	for _, namespace := range []string{"liqo", "liqo-tenant-rome"} {
		for user, as := range map[string]client.Client{liqo: users[liqo], agent: users[agent], "an administrator": c.Client} {
			for _, kind := range []string{"Secret", "Pod", "Deployment"} {
				if err := as.Create(t.Context(), labelledObject(kind, namespace, reservedLabels...), client.DryRunAll); err != nil {
					t.Errorf("%s in %s, written by %s: %v", kind, namespace, user, err)
				}
			}
		}
		for _, user := range []string{developer, controller} {
			for _, key := range []string{"liqo.io/identity-type", "liqo.io/signed-nonce", "liqo.io/webhook", "networking.liqo.io/gateway-resource"} {
				c.wantRefused(key+" in "+namespace+", written by "+user, secretOfLiqo,
					users[user].Create(t.Context(), labelledObject("Secret", namespace, "liqo.io/remote-cluster-id", key), client.DryRunAll))
			}
			c.check(users[user].Create(t.Context(), labelledObject("Pod", namespace, "networking.liqo.io/active"), client.DryRunAll))
			c.check(users[user].Create(t.Context(), labelledObject("Secret", namespace, "liqo.io/remote-cluster-id", "liqo.io/nonce"), client.DryRunAll))
		}
	}
	c.testUpdates(users)
}

// testUpdates changes existing Secrets with labels of Liqo.
func (c *cluster) testUpdates(users map[string]client.Client) {
	c.Helper()
	kubeconfig := labelledObject("Secret", "liqo-tenant-rome", "liqo.io/remote-cluster-id", "liqo.io/identity-type")
	c.check(users[liqo].Create(c.Context(), kubeconfig))
	patch := func(user string, obj client.Object, text string) error {
		return users[user].Patch(c.Context(), obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(text)), client.DryRunAll)
	}
	const renewed, owner = `{"data":{"kubeconfig":"YQ=="}}`, `{"metadata":{"ownerReferences":[]}}`
	c.check(patch(liqo, kubeconfig, renewed))
	c.check(patch(controller, kubeconfig, owner))
	for name, text := range map[string]string{
		"content": renewed, "labels": `{"metadata":{"labels":{"liqo.io/identity-type":null}}}`,
		"annotations": `{"metadata":{"annotations":{"liqo.io/remote-tenant-namespace":"other"}}}`, "finalizers": `{"metadata":{"finalizers":["example.com/stay"]}}`,
	} {
		c.wantRefused(name+" of a kubeconfig, changed by a user", "only Liqo, the agent and cluster administrators", patch(developer, kubeconfig, text))
	}
	// A Secret from the time before the policy, with Liqo's finalizer. A namespace that becomes an ordinary one leaves
	// the Secret behind.
	old := labelledObject("Secret", "liqo-tenant-rome", "liqo.io/remote-cluster-id", "liqo.io/identity-type")
	old.SetName("old")
	old.SetFinalizers([]string{"crdreplicator.liqo.io/operator"})
	c.check(users[liqo].Create(c.Context(), old))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "liqo-tenant-rome"}}
	c.check(c.Patch(c.Context(), namespace, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"liqo.io/tenant-namespace":null}}}`))))
	c.check(wait.PollUntilContextTimeout(c.Context(), 50*time.Millisecond, hangLimit, true, func(context.Context) (bool, error) {
		return patch(liqo, old, renewed) != nil, nil
	}))
	const foreign = "is reserved for objects of Liqo"
	c.wantRefused("a finalizer of Liqo", foreign, patch(liqo, kubeconfig, `{"metadata":{"finalizers":["crdreplicator.liqo.io/operator"]}}`))
	c.wantRefused("another content", foreign, patch(developer, old, renewed))
	c.check(patch(developer, old, `{"metadata":{"finalizers":null}}`))
	c.check(patch(developer, old, `{"metadata":{"labels":null}}`))
}

// installLabels installs the policy about labels of Liqo, for all namespaces.
func (c *cluster) installLabels() {
	c.Helper()
	for _, obj := range render(c.T, agentNamespace, "").Objects {
		if strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") && strings.HasSuffix(obj.GetName(), "-labels") {
			c.create(obj)
		}
	}
}

// labelledObject returns a small object with labels.
func labelledObject(kind, namespace string, keys ...string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetKind(kind)
	obj.SetAPIVersion("v1")
	obj.SetNamespace(namespace)
	obj.SetName("labelled")
	obj.SetLabels(with(nil, keys...))
	pod := map[string]any{"containers": []any{map[string]any{"name": "main", "image": "a"}}}
	switch kind {
	case "Pod":
		obj.Object["spec"] = pod
	case "Deployment":
		obj.SetAPIVersion("apps/v1")
		labels := map[string]any{"app": "a"}
		obj.Object["spec"] = map[string]any{
			"selector": map[string]any{"matchLabels": labels}, "template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": pod},
		}
	}
	return obj
}

var (
	keyOfLiqo   = regexp.MustCompile(`((?:[a-z0-9-]+\.)*\bliqo\.io/[A-Za-z0-9._-]+)`)
	quotedKey   = regexp.MustCompile(`"((?:[a-z0-9-]+\.)*liqo\.io/[A-Za-z0-9._-]+)["=]`)
	constantKey = regexp.MustCompile(`= "((?:[a-z0-9-]+\.)+io/[A-Za-z0-9._-]+)"`)
	allowedKey  = regexp.MustCompile(`'([a-z.]+/[A-Za-z-]+)'[,\]]`)
	quotedCode  = regexp.MustCompile("`([^`]+)`")
	// noKey matches versions of API groups, finalizers, and a label of Liqo's own tests.
	noKey = regexp.MustCompile(`/(v[0-9].*|finalizer|operator|resource|testLabel)$`)
)

// TestLabelsOfLiqoAreReviewed compares the labels and annotations in Liqo's source with the table in labels.md, and
// those that are allowed there with those that the policies allow.
func TestLabelsOfLiqoAreReviewed(t *testing.T) {
	reviewed, allowed := reviewedKeys(t)
	if diff := cmp.Diff(reviewed, keysInSource(t)); diff != "" {
		t.Errorf("Liqo's labels and annotations differ from labels.md: see who selects by them, and add a row (-reviewed +in Liqo):\n%s", diff)
	}
	text, err := os.ReadFile("../agent/templates/_guard.tpl")
	runtest.Check(t, err)
	_, list, _ := strings.Cut(string(text), `define "liqo-resource-broker-agent.reservedKey"`)
	list, _, _ = strings.Cut(list, "end -")
	permitted := map[string]bool{}
	for _, match := range allowedKey.FindAllStringSubmatch(list, -1) {
		permitted[match[1]] = true
	}
	if diff := cmp.Diff(allowed, slices.Sorted(maps.Keys(permitted))); diff != "" {
		t.Errorf("the policies allow other keys than labels.md (-reviewed +policies):\n%s", diff)
	}
}

// reviewedKeys returns the keys in labels.md, and those of Liqo's domains that it allows.
func reviewedKeys(t *testing.T) (all, allowed []string) {
	t.Helper()
	text, err := os.ReadFile("labels.md")
	runtest.Check(t, err)
	_, table, _ := strings.Cut(string(text), "<!-- labels begin -->")
	table, _, _ = strings.Cut(table, "<!-- labels end -->")
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		if len(cells) < 6 {
			continue
		}
		for _, match := range quotedCode.FindAllStringSubmatch(cells[1], -1) {
			all = append(all, match[1])
			if strings.HasPrefix(cells[3], " allowed") && keyOfLiqo.MatchString(match[1]) {
				allowed = append(allowed, match[1])
			}
		}
	}
	slices.Sort(all)
	slices.Sort(allowed)
	return all, allowed
}

// keysInSource returns the keys of labels and annotations in Liqo's programs and chart.
func keysInSource(t *testing.T) []string {
	t.Helper()
	keys := map[string]bool{}
	root := liqoFolder(t)
	for _, folder := range []string{"apis", "cmd", "deployments/liqo/files", "deployments/liqo/templates", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".md") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			pattern := keyOfLiqo
			if strings.HasSuffix(path, ".go") {
				pattern = quotedKey
			}
			for line := range strings.Lines(string(text)) {
				if strings.HasPrefix(strings.TrimSpace(line), "//") {
					continue
				}
				found := pattern.FindAllStringSubmatch(line, -1)
				if strings.Contains(path, "/pkg/consts/") {
					found = append(found, constantKey.FindAllStringSubmatch(line, -1)...)
				}
				for _, match := range found {
					if !noKey.MatchString(match[1]) {
						keys[match[1]] = true
					}
				}
			}
			return nil
		})
		runtest.Check(t, err)
	}
	return slices.Sorted(maps.Keys(keys))
}
