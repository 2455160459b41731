package attacks

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// honestPod returns the template of a pod that meets the restricted standard, pinned to the
// consumer's virtual node.
func (c *tenant) honestPod(name string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeSelector: e2e.OnReservation(c.request.Status.ReservationName),
			Containers:   []corev1.Container{honestContainer("main", "100m", "32Mi")},
		},
	}
}

func honestContainer(name, cpu, memory string) corev1.Container {
	no, yes, user := false, true, int64(65532)
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	return corev1.Container{
		Name: name, Image: "registry.k8s.io/pause:3.10",
		Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts},
		SecurityContext: &corev1.SecurityContext{
			AllowPrivilegeEscalation: &no, RunAsNonRoot: &yes, RunAsUser: &user,
			Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
	}
}

// liveHonestly creates, scales, rolls out and deletes a Deployment on the slice of each given
// consumer.
func (s *scene) liveHonestly(t testing.TB, consumers ...*tenant) {
	t.Helper()
	errs := make([]error, len(consumers))
	together(len(consumers), func(i int) { errs[i] = s.live(context.Background(), consumers[i]) }) // not the context of the test, which has ended if this runs in a cleanup
	check(t, errors.Join(errs...))
}

// live takes one honest Deployment on a consumer's slice from creation to deletion.
func (s *scene) live(ctx context.Context, c *tenant) error {
	const name = "honest"
	one, two, surge, none := int32(1), int32(2), intstr.FromInt32(1), intstr.FromInt32(0)
	d := &appsv1.Deployment{
		ObjectMeta: named(namespace, name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: c.honestPod(name),
			Strategy: appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: &surge, MaxUnavailable: &none}},
		},
	}
	if err := c.home.Create(ctx, d); err != nil {
		return fmt.Errorf("creating the Deployment of %s: %w", c.id, err)
	}
	if err := s.awaitRolledOut(ctx, c, d); err != nil {
		return err
	}
	for _, apply := range []func(){
		func() { d.Spec.Replicas = &two },
		func() { d.Spec.Template.Annotations = map[string]string{"rolled-out": "twice"} },
	} {
		if err := c.change(ctx, d, apply); err != nil {
			return err
		}
		if err := s.awaitRolledOut(ctx, c, d); err != nil {
			return err
		}
	}
	if err := c.home.DeleteDeployments(ctx, namespace); err != nil {
		return err
	}
	return s.awaitEmpty(ctx, c)
}

// change updates a Deployment and retries after a conflict.
func (c *tenant) change(ctx context.Context, d *appsv1.Deployment, apply func()) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if err := c.home.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return "", err
		}
		apply()
		return "", c.home.Update(ctx, d)
	})
}

// awaitRolledOut waits until exactly the pods that a Deployment requests are running, both at the
// consumer and at the provider.
func (s *scene) awaitRolledOut(ctx context.Context, c *tenant, d *appsv1.Deployment) error {
	return e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		if err := c.home.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
			return "", err
		}
		want, st := *d.Spec.Replicas, d.Status
		if st.ObservedGeneration == d.Generation && st.UpdatedReplicas == want && st.AvailableReplicas == want && st.Replicas == want {
			return s.twins(ctx, c, int(want))
		}
		return fmt.Sprintf("Deployment %q of %s to have %d pods: %+v; %s", d.Name, c.id, want, st, s.describe(ctx, c)), nil
	})
}

// twins describes what is missing until the provider has exactly n pods of the consumer, and all of
// them run; "" if nothing is missing.
func (s *scene) twins(ctx context.Context, c *tenant, n int) (string, error) {
	list := &corev1.PodList{}
	if err := s.provider.List(ctx, list, client.InNamespace(c.landing)); err != nil {
		return "", err
	}
	running := 0
	for i := range list.Items {
		if list.Items[i].Status.Phase == corev1.PodRunning && list.Items[i].DeletionTimestamp == nil {
			running++
		}
	}
	if running == n && len(list.Items) == n {
		return "", nil
	}
	return fmt.Sprintf("%d pods of %s to run at %s, %d of %d do", n, c.id, s.provider.Name, running, len(list.Items)), nil
}

// describe explains why pods of the consumer do not run.
func (s *scene) describe(ctx context.Context, c *tenant) string {
	list := &corev1.PodList{}
	if err := c.home.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	text := ""
	for i := range list.Items {
		p := &list.Items[i]
		text += fmt.Sprintf("%s on %q %s %s %s; ", p.Name, p.Spec.NodeName, p.Status.Phase, p.Status.Reason, p.Status.Message)
		for _, condition := range p.Status.Conditions {
			if condition.Status != corev1.ConditionTrue {
				text += condition.Message + "; "
			}
		}
	}
	events := &corev1.EventList{}
	if err := c.home.List(ctx, events, client.InNamespace(namespace)); err != nil {
		return err.Error()
	}
	for i := range events.Items {
		if e := &events.Items[i]; e.Type == corev1.EventTypeWarning && time.Since(e.LastTimestamp.Time) < time.Minute {
			text += e.Message + "; "
		}
	}
	return text
}

// TestHonestWorkloadsRunUnderTheGuards checks that the guards do not affect ordinary workloads.
func TestHonestWorkloadsRunUnderTheGuards(t *testing.T) {
	s := open(t)
	always := corev1.ContainerRestartPolicyAlways
	shapes := map[string]func(pod *corev1.PodSpec){
		"an init container": func(pod *corev1.PodSpec) {
			pod.InitContainers = []corev1.Container{honestContainer("init", "50m", "16Mi")}
		},
		"two init containers, the larger one first": func(pod *corev1.PodSpec) {
			pod.InitContainers = []corev1.Container{honestContainer("large", "200m", "64Mi"), honestContainer("small", "50m", "16Mi")}
		},
		"two containers": func(pod *corev1.PodSpec) {
			pod.Containers = append(pod.Containers, honestContainer("second", "50m", "16Mi"))
		},
		"a native sidecar": func(pod *corev1.PodSpec) {
			sidecar := honestContainer("sidecar", "50m", "16Mi")
			sidecar.RestartPolicy = &always
			pod.InitContainers = []corev1.Container{sidecar}
		},
		"what Istio injects with its CNI plugin": func(pod *corev1.PodSpec) {
			proxy := honestContainer("istio-proxy", "50m", "64Mi")
			proxy.Ports = []corev1.ContainerPort{{Name: "http-envoy-prom", ContainerPort: 15090}}
			proxy.Env = []corev1.EnvVar{{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}}}
			proxy.ReadinessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/healthz/ready", Port: intstr.FromInt32(15021)}}}
			proxy.VolumeMounts = []corev1.VolumeMount{{Name: "istio-envoy", MountPath: "/etc/istio/proxy"}, {Name: "istio-podinfo", MountPath: "/etc/istio/pod"}}
			pod.InitContainers = []corev1.Container{honestContainer("istio-validation", "50m", "16Mi")}
			pod.Containers = append(pod.Containers, proxy)
			pod.Volumes = append(pod.Volumes,
				corev1.Volume{Name: "istio-envoy", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
				corev1.Volume{Name: "istio-podinfo", VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
					Items: []corev1.DownwardAPIVolumeFile{{Path: "labels", FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels"}}},
				}}})
		},
		"probes, a hook and volumes": func(pod *corev1.PodSpec) {
			c := &pod.Containers[0]
			c.LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(8080)}}}
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1}}}
			c.VolumeMounts = []corev1.VolumeMount{{Name: "scratch", MountPath: "/scratch"}}
			pod.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		},
		"a topology spread over nodes": func(pod *corev1.PodSpec) {
			pod.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
				MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shape"}},
			}}
		},
	}
	for name, change := range shapes {
		t.Run(name, func(t *testing.T) {
			template := s.attacker.honestPod("shape")
			change(&template.Spec)
			one := int32(1)
			d := &appsv1.Deployment{ObjectMeta: named(namespace, "shape"), Spec: appsv1.DeploymentSpec{
				Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "shape"}}, Template: template,
			}}
			check(t, s.attacker.home.Create(t.Context(), d))
			t.Cleanup(func() {
				check(t, s.attacker.home.DeleteDeployments(context.Background(), namespace))
				s.awaitNoPods(t, s.attacker)
			})
			check(t, s.awaitRolledOut(t.Context(), s.attacker, d))
		})
	}
	t.Run("a Job", func(t *testing.T) { s.runJob(t, s.attacker) })
	t.Run("a StatefulSet", func(t *testing.T) { s.runStatefulSet(t, s.attacker) })
}

// runJob runs a Job of two pods to completion.
func (s *scene) runJob(t *testing.T, c *tenant) {
	t.Helper()
	two, template := int32(2), c.honestPod("job")
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	job := &batchv1.Job{ObjectMeta: named(namespace, "job"), Spec: batchv1.JobSpec{Completions: &two, Parallelism: &two, Template: template}}
	check(t, c.home.Create(t.Context(), job))
	t.Cleanup(func() {
		background := metav1.DeletePropagationBackground
		check(t, client.IgnoreNotFound(c.home.Client.Delete(context.Background(), job, &client.DeleteOptions{PropagationPolicy: &background})))
		s.awaitNoPods(t, c)
	})
	// These pods have no kubelet that ends them. The test covers the decision of the guards: the
	// pods run at the provider.
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) { return s.twins(ctx, c, 2) }))
}

// runStatefulSet runs two pods of a StatefulSet with a headless Service.
func (s *scene) runStatefulSet(t *testing.T, c *tenant) {
	t.Helper()
	two := int32(2)
	set := &appsv1.StatefulSet{ObjectMeta: named(namespace, "set"), Spec: appsv1.StatefulSetSpec{
		Replicas: &two, ServiceName: "set", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "set"}}, Template: c.honestPod("set"),
	}}
	service := &corev1.Service{ObjectMeta: named(namespace, "set"), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"app": "set"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}
	check(t, c.home.Create(t.Context(), service))
	check(t, c.home.Create(t.Context(), set))
	t.Cleanup(func() {
		check(t, client.IgnoreNotFound(c.home.Delete(context.Background(), set)))
		check(t, client.IgnoreNotFound(c.home.Delete(context.Background(), service)))
		s.awaitNoPods(t, c)
	})
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) { return s.twins(ctx, c, 2) }))
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		twin := &corev1.Service{}
		err := s.provider.Get(ctx, client.ObjectKey{Namespace: c.landing, Name: "set"}, twin)
		if apierrors.IsNotFound(err) {
			return "the headless Service to be reflected", nil
		}
		return "", err
	}))
}
