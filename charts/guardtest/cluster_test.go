// Package guardtest tests the admission policies of the agent's chart against what honest and hostile consumers
// write, on a real API server with Liqo's CRDs and roles.
package guardtest

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	consumer = "rome"
	slice    = "res-aaaaaaaaaa-1"
	user     = slice + "-0123456789ab"
	// virtualKubeletRole is the role that Liqo binds to a consumer in an offloaded namespace.
	virtualKubeletRole = "liqo-virtual-kubelet-remote"
)

// hangLimit ends a wait for something that must happen. It is far longer than the slowest machine needs.
const hangLimit = 5 * time.Minute

// cluster is a provider without controllers.
type cluster struct {
	*testing.T
	client.Client
	config *rest.Config
	scheme *runtime.Scheme
}

func startCluster(t *testing.T) *cluster {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, clientgoscheme.AddToScheme(scheme))
	config := controlplanetest.Start(t).RESTConfig()
	config.QPS = -1
	admin, err := client.New(config, client.Options{Scheme: scheme})
	runtest.Check(t, err)
	c := &cluster{T: t, Client: admin, config: config, scheme: scheme}
	c.check(manifest.Install(t.Context(), admin, c.kindsOfLiqo()))
	c.createRole()
	return c
}

// Each of these tests writes only to offloaded namespaces that it opens itself, so they share a cluster.
func TestOffloadedNamespaces(t *testing.T) {
	shared := startCluster(t)
	for name, test := range map[string]func(*cluster){
		"ObjectsStayInTheirNamespace":       (*cluster).testObjectsStayInTheirNamespace,
		"PodsStayWithinTheirGrant":          (*cluster).testPodsStayWithinTheirGrant,
		"PodsUseOnlyObjectsOfTheirCluster":  (*cluster).testPodsUseOnlyObjectsOfTheirCluster,
		"PolicyMatchesItsRulesOnRandomPods": (*cluster).testPolicyMatchesItsRulesOnRandomPods,
		"PodSecurityEqualsKubernetes":       (*cluster).testPodSecurityEqualsKubernetes,
	} {
		t.Run(name, func(t *testing.T) {
			test(&cluster{T: t, Client: shared.Client, config: shared.config, scheme: shared.scheme})
		})
	}
}

func (c *cluster) check(err error) {
	c.Helper()
	runtest.Check(c, err)
}

func (c *cluster) create(obj client.Object) {
	c.Helper()
	c.check(c.Create(c.Context(), obj))
}

// liqoFolder returns the folder with Liqo's source on this machine.
func liqoFolder(t *testing.T) string {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/liqotech/liqo").Output()
	runtest.Check(t, err)
	return strings.TrimSpace(string(folder))
}

func (c *cluster) kindsOfLiqo() (kinds []manifest.Object) {
	c.Helper()
	files, err := filepath.Glob(filepath.Join(liqoFolder(c.T), "deployments/liqo/charts/liqo-crds/crds/offloading.liqo.io_shadow*.yaml"))
	c.check(err)
	if len(files) != 2 {
		c.Fatalf("%d kinds of shadows in Liqo's chart, want 2", len(files))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		c.check(err)
		read, err := manifest.Read(text)
		c.check(err)
		kinds = append(kinds, read...)
	}
	return kinds
}

// createRole creates Liqo's role with the rules of its chart.
func (c *cluster) createRole() {
	c.Helper()
	text, err := os.ReadFile(filepath.Join(liqoFolder(c.T), "deployments/liqo/files", virtualKubeletRole+"-ClusterRole.yaml"))
	c.check(err)
	role := &rbacv1.ClusterRole{}
	c.check(yaml.UnmarshalStrict(text, role))
	role.Name = virtualKubeletRole
	c.create(role)
}

const agentNamespace = "liqo-resource-broker"

// render renders the agent's chart with values, for a namespace.
func render(t *testing.T, namespace, values string) *chart.Rendered {
	t.Helper()
	loaded, err := chart.LoadFS(charts.Agent())
	runtest.Check(t, err)
	release := chart.Release{Name: "agent", Namespace: namespace, Values: map[string]any{}}
	if err := yaml.UnmarshalStrict([]byte(values), &release.Values); err != nil {
		t.Fatalf("the values of this test: %v", err)
	}
	rendered, err := chart.Render(loaded, release)
	runtest.Check(t, err)
	return rendered
}

// site is a namespace that rome has offloaded, with policies rendered from some values.
type site struct {
	*cluster
	name      string
	namespace string
	policies  []*unstructured.Unstructured
	// peer is a client with the identity of rome's slice.
	peer client.Client
}

// openSite installs the policies for values, bound to the namespace name. If the parameter only is not empty, it
// installs only the policies whose names end with one of these endings.
func (c *cluster) openSite(name, values string, only ...string) *site {
	c.Helper()
	s := &site{cluster: c, name: name, namespace: name + "-" + consumer}
	labels := map[string]string{"liqo.io/remote-cluster-id": consumer, "site": name}
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace, Labels: labels}})
	c.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "liqo"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: virtualKubeletRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: consumer}},
	})
	// The agent's namespace, with the rights of consumers.
	c.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	s.giveRight("Write")
	s.peer = c.as(user, consumer)
	overrides := "{fullnameOverride: " + name + "}"
	policies := slices.DeleteFunc(render(c.T, name, mergeYAML(c.T, values, overrides)).Objects, func(obj *unstructured.Unstructured) bool {
		ours := strings.HasPrefix(obj.GetKind(), "ValidatingAdmissionPolicy") && aboutSlices(obj.GetName()) &&
			(len(only) == 0 || slices.ContainsFunc(only, func(end string) bool { return strings.HasSuffix(obj.GetName(), end) }))
		return !ours
	})
	for _, obj := range policies {
		if obj.GetKind() == "ValidatingAdmissionPolicyBinding" {
			c.check(unstructured.SetNestedStringMap(obj.Object, map[string]string{"site": name}, "spec", "matchResources", "namespaceSelector", "matchLabels"))
		}
		c.create(obj)
	}
	s.policies = policies
	controlplanetest.AwaitPolicies(c.T, c.Client)
	return s
}

// aboutSlices reports whether a policy is about offloaded namespaces.
func aboutSlices(name string) bool {
	return slices.ContainsFunc([]string{"-rights", "-rights-rest", "-slices", "-pods", "-pod-security", "-objects", "-placements"}, func(end string) bool { return strings.HasSuffix(name, end) }) ||
		strings.Contains(name, "-foreign-")
}

func mergeYAML(t *testing.T, texts ...string) string {
	t.Helper()
	merged := map[string]any{}
	for _, text := range texts {
		values := map[string]any{}
		runtest.Check(t, yaml.UnmarshalStrict([]byte(text), &values))
		maps.Copy(merged, values)
	}
	text, err := yaml.Marshal(merged)
	runtest.Check(t, err)
	return string(text)
}

// giveRight writes the right of rome's slice to where the policies read it. An empty right removes all rights, as if
// somebody had removed the annotations.
func (s *site) giveRight(right string) {
	s.Helper()
	own := &corev1.Namespace{}
	s.check(s.Get(s.Context(), client.ObjectKey{Name: s.name}, own))
	own.Annotations = nil
	if right != "" {
		own.Annotations = map[string]string{"broker.fluidos.eu/guarded-peers": "milan " + consumer, consumer + ".peers.broker.fluidos.eu/" + slice: right}
	}
	s.check(s.Update(s.Context(), own))
}

// as returns a client that impersonates a user.
func (c *cluster) as(user string, groups ...string) client.Client {
	c.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: append(groups, "system:authenticated")}
	peer, err := client.New(config, client.Options{Scheme: c.scheme})
	c.check(err)
	return peer
}

// refusedBy returns the policy that refused a request, "" if none did.
func refusedBy(err error) string {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return ""
	}
	_, after, found := strings.Cut(status.Status().Message, "ValidatingAdmissionPolicy '")
	if !found {
		return ""
	}
	name, _, _ := strings.Cut(after, "'")
	return name
}

func (s *site) object(apiVersion, kind, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{}}
	obj.SetAPIVersion(apiVersion)
	obj.SetKind(kind)
	obj.SetNamespace(s.namespace)
	obj.SetName(name)
	return obj
}

type change func(t testing.TB, pod map[string]any)

// shadowPod returns the object that a virtual kubelet writes for a small pod, with changes.
func (s *site) shadowPod(name string, changes ...change) *unstructured.Unstructured {
	s.Helper()
	obj := s.object("offloading.liqo.io/v1beta1", "ShadowPod", name)
	obj.SetLabels(map[string]string{"offloading.liqo.io/origin": consumer, "offloading.liqo.io/nodename": slice, "app": name})
	pod := map[string]any{
		"automountServiceAccountToken": false,
		"containers":                   []any{container("main")},
		"tolerations": []any{
			map[string]any{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)},
			map[string]any{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": int64(300)},
		},
		"dnsPolicy": "ClusterFirst", "enableServiceLinks": true, "restartPolicy": "Always",
		"securityContext": map[string]any{}, "terminationGracePeriodSeconds": int64(30),
	}
	for _, f := range changes {
		f(s.T, pod)
	}
	obj.Object["spec"] = map[string]any{"pod": pod}
	return obj
}

// container returns a container with small requests, with changes.
func container(name string, changes ...map[string]any) map[string]any {
	amounts := map[string]any{"cpu": "100m", "memory": "64Mi"}
	c := map[string]any{
		"name": name, "image": "registry.k8s.io/pause:3.10",
		"resources": map[string]any{"requests": amounts, "limits": maps.Clone(amounts)},
	}
	for _, more := range changes {
		maps.Copy(c, more)
	}
	return c
}

func requests(cpu, memory string) map[string]any {
	amounts := map[string]any{"cpu": cpu, "memory": memory}
	return map[string]any{"resources": map[string]any{"requests": amounts, "limits": maps.Clone(amounts)}}
}

// set returns a change that sets a field of the pod.
func set(value any, path ...string) change {
	return func(t testing.TB, pod map[string]any) {
		t.Helper()
		runtest.Check(t, unstructured.SetNestedField(pod, runtime.DeepCopyJSONValue(value), path...))
	}
}

// inContainer returns a change that sets a field of the first container.
func inContainer(value any, path ...string) change {
	return func(t testing.TB, pod map[string]any) {
		t.Helper()
		first := pod["containers"].([]any)[0].(map[string]any)
		runtest.Check(t, unstructured.SetNestedField(first, runtime.DeepCopyJSONValue(value), path...))
	}
}
