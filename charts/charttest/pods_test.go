package charttest

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	psapi "k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// pod is a pod of a release, with the name of the object that creates it.
type pod struct {
	name string
	meta metav1.ObjectMeta
	spec corev1.PodSpec
}

func pods(t *testing.T, rendered *chart.Rendered) []pod {
	t.Helper()
	var out []pod
	for _, obj := range allObjects(rendered) {
		switch obj.GetKind() {
		case "Deployment":
			d := typed[*appsv1.Deployment](t, obj)
			out = append(out, pod{d.Name, d.Spec.Template.ObjectMeta, d.Spec.Template.Spec})
		case "Job":
			j := typed[*batchv1.Job](t, obj)
			out = append(out, pod{j.Name, j.Spec.Template.ObjectMeta, j.Spec.Template.Spec})
		case "Pod":
			p := typed[*corev1.Pod](t, obj)
			out = append(out, pod{p.Name, p.ObjectMeta, p.Spec})
		}
	}
	return out
}

func TestPodsMeetTheRestrictedStandard(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	runtest.Check(t, err)
	restricted := psapi.LevelVersion{Level: psapi.LevelRestricted, Version: psapi.LatestVersion()}
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for _, p := range pods(t, rendered) {
			for _, result := range evaluator.EvaluatePod(restricted, &p.meta, &p.spec) {
				if !result.Allowed {
					t.Errorf("%s: %s: %s", p.name, result.ForbiddenReason, result.ForbiddenDetail)
				}
			}
			for _, c := range p.spec.Containers {
				if root := c.SecurityContext.ReadOnlyRootFilesystem; root == nil || !*root {
					t.Errorf("%s: container %s may write to its image", p.name, c.Name)
				}
			}
		}
	})
}

// A key that is not mounted cannot leak, so of a CA only the certificate may be mounted. No file may be mounted with
// a subPath, because it would not follow changes of its Secret.
func TestPodsMountNoCAKeys(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		for _, p := range pods(t, rendered) {
			for _, v := range p.spec.Volumes {
				if v.Projected == nil {
					continue
				}
				for _, source := range v.Projected.Sources {
					if source.Secret == nil || !strings.HasSuffix(source.Secret.Name, "-ca") {
						continue
					}
					for _, item := range source.Secret.Items {
						if item.Key == "tls.key" {
							t.Errorf("%s mounts the key of CA %s", p.name, source.Secret.Name)
						}
					}
					if len(source.Secret.Items) == 0 {
						t.Errorf("%s mounts all of CA %s", p.name, source.Secret.Name)
					}
				}
			}
			for _, c := range p.spec.Containers {
				for _, m := range c.VolumeMounts {
					if m.SubPath != "" {
						t.Errorf("%s mounts %s by a subPath, which never changes", p.name, m.MountPath)
					}
				}
			}
		}
	})
}

// A drain gets its full timeout, and its pod one more minute to start.
func TestHooksHaveTheirFullTimeout(t *testing.T) {
	for timeout, want := range map[string]int64{"4m": 300, "90s": 150, "1h2m3s": 3783} {
		for name, c := range chartsUnderTest {
			rendered := mustRender(t, c, chart.Release{Name: c.release, Namespace: namespace}, "{uninstall: {timeout: "+timeout+"}}")
			for _, obj := range rendered.Hooks {
				if obj.GetKind() != "Job" {
					continue
				}
				if got := *typed[*batchv1.Job](t, obj).Spec.ActiveDeadlineSeconds; got != want {
					t.Errorf("%s of chart %s has %d s for a timeout of %s, want %d", obj.GetName(), name, got, timeout, want)
				}
			}
		}
	}
}

// A pod that ends still serves until kube-proxy has stopped routing requests to it, and then needs time to end.
func TestEndingPodsServeUntilNoRequestsCome(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		spec := deploymentOf(t, rendered).Spec.Template.Spec
		grace := *spec.TerminationGracePeriodSeconds
		for _, c := range spec.Containers {
			var sleep int64
			if c.Lifecycle != nil {
				sleep = c.Lifecycle.PreStop.Sleep.Seconds
			}
			if (sleep > 0) != (grace > 5) || sleep >= grace {
				t.Errorf("container %s sleeps for %d s of %d s before it stops", c.Name, sleep, grace)
			}
		}
	})
}

// A port that a Service, probe or policy names exists.
func TestNamedPortsExist(t *testing.T) {
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		ports := sets.New[string]()
		for _, c := range deploymentOf(t, rendered).Spec.Template.Spec.Containers {
			for _, port := range c.Ports {
				if ports.Has(port.Name) {
					t.Errorf("two ports are named %s", port.Name)
				}
				ports.Insert(port.Name)
			}
			for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
				if !ports.Has(probe.HTTPGet.Port.String()) {
					t.Errorf("a probe uses port %s, there are %v", probe.HTTPGet.Port.String(), sets.List(ports))
				}
			}
		}
		for _, obj := range rendered.Objects {
			if obj.GetKind() != "Service" {
				continue
			}
			for _, port := range typed[*corev1.Service](t, obj).Spec.Ports {
				if !ports.Has(port.TargetPort.String()) {
					t.Errorf("Service %s leads to port %s, there are %v", obj.GetName(), port.TargetPort.String(), sets.List(ports))
				}
			}
		}
	})
}

// Every Secret or ConfigMap of a pod is created by the release or named in its values.
func TestSecretsOfPodsExist(t *testing.T) {
	given := []string{"my-tls", "my-agents-ca", "my-webhook", "my-console", "my-metrics", "agents-root", "rome", "broker-kubeconfig"}
	eachSet(t, func(t *testing.T, rendered *chart.Rendered) {
		made := sets.New(given...)
		for _, obj := range allObjects(rendered) {
			switch obj.GetKind() {
			case "Secret", "ConfigMap":
				made.Insert(obj.GetName())
			case "Certificate":
				spec, _ := obj.Object["spec"].(map[string]any)
				name, _ := spec["secretName"].(string)
				made.Insert(name)
			}
		}
		for _, p := range pods(t, rendered) {
			for _, name := range namedSources(p.spec) {
				if !made.Has(name) {
					t.Errorf("%s mounts %s, which does not exist: there are %v", p.name, name, sets.List(made))
				}
			}
		}
	})
}

// namedSources returns the Secrets and ConfigMaps without which a pod does not start.
func namedSources(spec corev1.PodSpec) []string {
	var out []string
	add := func(name string, optional *bool) {
		if optional == nil || !*optional {
			out = append(out, name)
		}
	}
	for _, v := range spec.Volumes {
		if v.Secret != nil {
			add(v.Secret.SecretName, v.Secret.Optional)
		}
		if v.ConfigMap != nil {
			add(v.ConfigMap.Name, v.ConfigMap.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, source := range v.Projected.Sources {
			if source.Secret != nil {
				add(source.Secret.Name, source.Secret.Optional)
			}
			if source.ConfigMap != nil {
				add(source.ConfigMap.Name, source.ConfigMap.Optional)
			}
		}
	}
	for _, c := range spec.Containers {
		for _, e := range c.Env {
			if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
				add(e.ValueFrom.SecretKeyRef.Name, e.ValueFrom.SecretKeyRef.Optional)
			}
		}
	}
	return out
}
