package guardtest

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	podsecurity "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// version is the version of the standard that the policies implement, the newest in the module. A newer module with
// newer checks fails these tests until the policies follow.
var version = podsecurity.LatestVersion()

// The policy of each level decides like Kubernetes' own evaluator, on its fixtures and on thousands of random pods.
func (c *cluster) testPodSecurityEqualsKubernetes() {
	c.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	c.check(err)
	for _, level := range []podsecurity.Level{podsecurity.LevelBaseline, podsecurity.LevelRestricted} {
		s := c.openSite(string(level), "{guard: {podSecurity: "+string(level)+"}}", "-pod-security")
		judge := func(pod *corev1.Pod) (allowed bool, reason string) {
			results := evaluator.EvaluatePod(podsecurity.LevelVersion{Level: level, Version: version}, &pod.ObjectMeta, &pod.Spec)
			all := policy.AggregateCheckResults(results)
			return all.Allowed, all.ForbiddenReason() + ": " + all.ForbiddenDetail()
		}
		fixtures := fixturesOf(c.T, level)
		for name, pod := range fixtures {
			s.compare(name, pod, judge)
		}
		random, refused := 2000, 0
		if testing.Short() {
			random = 200
		}
		source := rand.New(rand.NewPCG(1, uint64(len(level))))
		for i := range random {
			if !s.compare(fmt.Sprintf("random pod %d", i), randomPod(source, level), judge) {
				refused++
			}
		}
		c.Logf("%s: %d fixtures and %d random pods, %d of these refused", level, len(fixtures), random, refused)
		if refused < random/10 || refused > random*9/10 {
			c.Errorf("%s: %d of %d random pods are refused, which tests one side only", level, refused, random)
		}
	}
}

// compare reports whether the evaluator allows the pod, and fails the test if the policy decides otherwise.
func (s *site) compare(name string, pod *corev1.Pod, judge func(*corev1.Pod) (bool, string)) bool {
	s.Helper()
	obj := s.shadowPod("compared")
	spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&pod.Spec)
	s.check(err)
	obj.Object["spec"] = map[string]any{"pod": spec}
	obj.SetAnnotations(pod.Annotations)
	err = s.peer.Create(s.Context(), obj, client.DryRunAll)
	allowed, reason := judge(pod)
	switch {
	case err != nil && refusedBy(err) == "" || apierrors.IsInvalid(err):
		s.Errorf("%s: %v", name, err)
	case allowed != (err == nil):
		text, _ := json.Marshal(pod)
		s.Errorf("%s: the evaluator allows it: %t (%s); the policy says: %v; the pod: %s", name, allowed, reason, err, text)
	}
	return allowed
}

// fixturesOf returns the newest test pods of Kubernetes' evaluator for a level.
func fixturesOf(t *testing.T, level podsecurity.Level) map[string]*corev1.Pod {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/pod-security-admission").Output()
	runtest.Check(t, err)
	pods := map[string]*corev1.Pod{}
	for _, of := range []podsecurity.Level{podsecurity.LevelBaseline, podsecurity.LevelRestricted} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "test", "testdata", string(of), "v1.35", "*", "*.yaml"))
		if err != nil || len(files) < 20 {
			t.Fatalf("%d fixtures of %s: %v", len(files), of, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			runtest.Check(t, err)
			pod := &corev1.Pod{}
			if err := yaml.UnmarshalStrict(text, pod); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			for i := range pod.Spec.Volumes {
				// The schema of a ShadowPod requires fields that the evaluator ignores.
				if scaleIO := pod.Spec.Volumes[i].ScaleIO; scaleIO != nil {
					scaleIO.SecretRef = &corev1.LocalObjectReference{Name: "a"}
				}
			}
			name := strings.Join([]string{string(of), filepath.Base(filepath.Dir(file)), filepath.Base(file)}, "/")
			pods[name] = pod
		}
	}
	return pods
}

// choice is an optional part of a pod, with values on both sides of the rules.
type choice struct {
	path   []string
	values []any
}

var levelChoices = []choice{
	{[]string{"privileged"}, []any{true, false}},
	{[]string{"allowPrivilegeEscalation"}, []any{true, false}},
	{[]string{"runAsNonRoot"}, []any{true, false}},
	{[]string{"runAsUser"}, []any{int64(0), int64(1000)}},
	{[]string{"procMount"}, []any{"Default", "Unmasked"}},
	{[]string{"capabilities"}, []any{
		map[string]any{"drop": []any{"ALL"}}, map[string]any{"add": []any{"CHOWN"}}, map[string]any{"drop": []any{"ALL"}, "add": []any{"NET_BIND_SERVICE"}},
		map[string]any{"drop": []any{"KILL", "ALL"}, "add": []any{"NET_ADMIN"}}, map[string]any{"drop": []any{"all"}}, map[string]any{"add": []any{"ALL"}}, map[string]any{}}},
	{[]string{"seccompProfile"}, []any{
		map[string]any{"type": "RuntimeDefault"}, map[string]any{"type": "Localhost", "localhostProfile": "a"}, map[string]any{"type": "Unconfined"}}},
	{[]string{"appArmorProfile"}, []any{map[string]any{"type": "RuntimeDefault"}, map[string]any{"type": "Unconfined"}}},
	{[]string{"seLinuxOptions"}, []any{
		map[string]any{"type": "container_t"}, map[string]any{"type": "spc_t"}, map[string]any{"user": "u"}, map[string]any{"role": "r"}, map[string]any{"level": "s0"}, map[string]any{"type": ""}}},
	{[]string{"windowsOptions"}, []any{map[string]any{"hostProcess": true}, map[string]any{"hostProcess": false}, map[string]any{}}},
}

var podChoices = []choice{
	{[]string{"hostNetwork"}, []any{true, false}}, {[]string{"hostPID"}, []any{true, false}}, {[]string{"hostIPC"}, []any{true, false}},
	{[]string{"hostUsers"}, []any{true, false, false, false}},
	{[]string{"os"}, []any{map[string]any{"name": "windows"}, map[string]any{"name": "linux"}}},
	{[]string{"volumes"}, []any{
		[]any{map[string]any{"name": "v", "emptyDir": map[string]any{}}}, []any{map[string]any{"name": "v", "hostPath": map[string]any{"path": "/"}}},
		[]any{map[string]any{"name": "v", "nfs": map[string]any{"server": "a", "path": "/"}}}, []any{map[string]any{"name": "v", "configMap": map[string]any{"name": "a"}}, map[string]any{"name": "w"}}}},
	{[]string{"securityContext", "sysctls"}, []any{
		[]any{map[string]any{"name": "net.ipv4.tcp_rmem", "value": "1"}}, []any{map[string]any{"name": "kernel.msgmax", "value": "1"}}, []any{}}},
}

var containerChoices = []choice{
	{[]string{"ports"}, []any{
		[]any{map[string]any{"containerPort": int64(80)}}, []any{map[string]any{"containerPort": int64(80), "hostPort": int64(0)}, map[string]any{"containerPort": int64(81), "hostPort": int64(81)}}}},
	{[]string{"livenessProbe", "httpGet"}, []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(80), "host": "10.0.0.1"}}},
	{[]string{"readinessProbe", "tcpSocket"}, []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(80), "host": "127.0.0.1"}}},
	{[]string{"startupProbe", "exec"}, []any{map[string]any{"command": []any{"true"}}}},
	{[]string{"lifecycle", "preStop", "httpGet"}, []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(80), "host": "a"}}},
	{[]string{"lifecycle", "postStart", "tcpSocket"}, []any{map[string]any{"port": int64(80)}, map[string]any{"port": int64(80), "host": "a"}}},
}

// randomPod returns a pod with a few of the choices. It starts with a pod that the level allows, so that both
// decisions are common.
func randomPod(source *rand.Rand, level podsecurity.Level) *corev1.Pod {
	content := map[string]any{"securityContext": map[string]any{}}
	if level == podsecurity.LevelRestricted && source.IntN(4) > 0 {
		content["securityContext"] = map[string]any{"runAsNonRoot": true, "seccompProfile": map[string]any{"type": "RuntimeDefault"}}
	}
	pick := func(into map[string]any, rarity int, choices []choice) {
		for _, c := range choices {
			if source.IntN(rarity) == 0 {
				value := runtime.DeepCopyJSONValue(c.values[source.IntN(len(c.values))])
				if err := unstructured.SetNestedField(into, value, c.path...); err != nil {
					panic(err)
				}
			}
		}
	}
	for _, list := range []string{"containers", "initContainers", "ephemeralContainers"} {
		number := source.IntN(3)
		if list == "containers" {
			number = 1 + source.IntN(2)
		}
		var containers []any
		for i := range number {
			context := map[string]any{}
			if level == podsecurity.LevelRestricted && source.IntN(8) > 0 {
				context = map[string]any{"allowPrivilegeEscalation": false, "capabilities": map[string]any{"drop": []any{"ALL"}}}
			}
			pick(context, 24, levelChoices)
			one := map[string]any{"name": fmt.Sprintf("%s-%d", list, i), "image": "a"}
			if len(context) > 0 {
				one["securityContext"] = context
			}
			pick(one, 24, containerChoices)
			containers = append(containers, one)
		}
		if number > 0 {
			content[list] = containers
		}
	}
	pick(content["securityContext"].(map[string]any), 16, levelChoices[2:4])
	pick(content["securityContext"].(map[string]any), 16, levelChoices[6:])
	pick(content, 20, podChoices)
	if len(content["securityContext"].(map[string]any)) == 0 {
		delete(content, "securityContext")
	}
	pod := &corev1.Pod{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &pod.Spec); err != nil {
		panic(err)
	}
	if source.IntN(12) == 0 {
		pod.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/a": []string{"runtime/default", "unconfined", "localhost/a", ""}[source.IntN(4)]}
	}
	return pod
}
