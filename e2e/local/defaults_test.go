package local

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// refusedByProviders returns resources of pods whose copies a provider with Liqo's Hard limits refuses.
func refusedByProviders(cpu, memory string) map[string]corev1.ResourceRequirements {
	requests := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	limits := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("4Gi")}
	return map[string]corev1.ResourceRequirements{"nothing": {}, "no-limits": {Requests: requests}, "high-limits": {Requests: requests, Limits: limits}}
}

func podWith(name string, resources corev1.ResourceRequirements, change ...func(*corev1.PodSpec)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{TerminationGracePeriodSeconds: new(int64(0)), Containers: []corev1.Container{
			{Name: "a", Image: "registry.k8s.io/pause:3.10", Resources: resources},
		}},
	}
	for _, f := range change {
		f(&pod.Spec)
	}
	return pod
}

// TestARequestLeavesOtherPodsOfItsNamespaceAlone creates pods that have nothing to do with the request. The virtual
// node is the emptiest of all.
func TestARequestLeavesOtherPodsOfItsNamespaceAlone(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	r, _ := readyRequest(t, rome, "alone", small())
	tolerant := func(spec *corev1.PodSpec) {
		spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	var pods []*corev1.Pod
	// The amounts are so large that the cluster advertises the end of each pod.
	for name, resources := range refusedByProviders("500m", "512Mi") {
		for i := range 4 {
			pods = append(pods, podWith(fmt.Sprintf("%s-%d", name, i), resources))
		}
		pods = append(pods, podWith(name+"-tolerant", resources, tolerant))
	}
	for _, pod := range pods {
		check(t, rome.Create(ctx, pod))
	}
	for _, pod := range pods {
		check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
			err := rome.Get(ctx, client.ObjectKeyFromObject(pod), pod)
			if err == nil && pod.Status.Phase == corev1.PodRunning {
				return "", nil
			}
			return fmt.Sprintf("pod %q to run, it is %s on %q", pod.Name, pod.Status.Phase, pod.Spec.NodeName), err
		}))
		if pod.Spec.NodeName == r.Status.NodeName {
			t.Errorf("pod %q is on the virtual node", pod.Name)
		}
	}
	for _, pod := range pods {
		check(t, rome.DeleteAndWait(ctx, pod, patience))
	}
}

// TestAPinnedDeploymentOutlivesItsRequest deploys before the request exists, as GitOps may, and creates the request again
// under its name. The pods set no limits.
func TestAPinnedDeploymentOutlivesItsRequest(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	samples, err := e2e.ShippedSamples()
	check(t, err)
	check(t, rome.Deploy(ctx, namespace, samples.Deployment, map[string]string{agentv1alpha1.RequestLabel: "again"}, e2e.Named("again"), withoutLimits))
	var before string
	for range 2 {
		r, _ := readyRequest(t, rome, "again", small())
		_, err := env.Watch(ctx, rome, namespace, r.Status.TargetClusterID, r.Status.NodeName)
		check(t, err)
		if r.Status.NodeName == before {
			t.Errorf("the request that was created again has the same node %q", before)
		}
		before = r.Status.NodeName
		check(t, rome.DeleteAndWait(ctx, r, patience))
	}
}

// TestARequestIsUnhealthyWhileItsProviderRefusesPods uses pods that Liqo at the provider refuses.
func TestARequestIsUnhealthyWhileItsProviderRefusesPods(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	r, err := rome.Request(ctx, namespace, "unhealthy", small(), func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Offloading = &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceNone}
	})
	check(t, err)
	check(t, rome.AwaitReady(ctx, r, readyWithin))
	awaitHealth := func(reason string, words ...string) {
		t.Helper()
		check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
			err := rome.Get(ctx, client.ObjectKeyFromObject(r), r)
			c := meta.FindStatusCondition(r.Status.Conditions, agentv1alpha1.ConditionHealthy)
			if c == nil || err != nil {
				return "condition Healthy", err
			}
			for _, word := range append(words, reason) {
				if !strings.Contains(c.Reason+" "+c.Message, word) {
					return fmt.Sprintf("Healthy to say %s with %q, it says %s: %s", reason, words, c.Reason, c.Message), nil
				}
			}
			return "", nil
		}))
	}
	awaitHealth(agentv1alpha1.ReasonHealthy)
	var pods []*corev1.Pod
	for name, resources := range refusedByProviders("50m", "32Mi") {
		pods = append(pods, podWith(name, resources, func(spec *corev1.PodSpec) { spec.NodeSelector = map[string]string{agentv1alpha1.RequestLabel: r.Name} }))
		check(t, rome.Create(ctx, pods[len(pods)-1]))
	}
	awaitHealth(agentv1alpha1.ReasonPodsRejected, fmt.Sprintf("%d pods of node %q", len(pods), r.Status.NodeName), "FailedReflection")
	for _, pod := range pods {
		check(t, rome.DeleteAndWait(ctx, pod, patience))
	}
	awaitHealth(agentv1alpha1.ReasonHealthy)

	// The provider has a ConfigMap with the name of the one that the pod mounts.
	provider := env.Member(r.Status.TargetClusterID)
	theirs, ours := note(namespace+"-rome", "app-config"), note(namespace, "app-config")
	check(t, provider.Create(ctx, theirs))
	check(t, rome.Create(ctx, ours))
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	pod := podWith("collides", corev1.ResourceRequirements{Requests: amounts, Limits: amounts}, func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{agentv1alpha1.RequestLabel: r.Name}
		spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: ours.Name}},
		}}}
	})
	check(t, rome.Create(ctx, pod))
	awaitHealth(agentv1alpha1.ReasonPodsRejected, "ConfigMap app-config in namespace e2e-rome was not reflected from cluster rome: use another name, or")
	check(t, provider.Delete(ctx, theirs))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		err := rome.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil && pod.Status.Phase == corev1.PodRunning {
			return "", nil
		}
		return "the pod to run when the ConfigMap of the provider is gone, it is " + string(pod.Status.Phase), err
	}))
	awaitHealth(agentv1alpha1.ReasonHealthy)
	check(t, rome.DeleteAndWait(ctx, pod, patience))
	check(t, rome.Delete(ctx, ours))

	// The provider has a Service with the name of one here. Liqo's networking is off on the playground, so Liqo reflects no
	// endpoints that the provider could refuse, and only the event on the Service tells.
	service := func(namespace string) *corev1.Service {
		return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"}, Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": "db"}, Ports: []corev1.ServicePort{{Port: 5432}},
		}}
	}
	foreign, own := service(namespace+"-rome"), service(namespace)
	check(t, provider.Create(ctx, foreign))
	check(t, rome.Create(ctx, own))
	check(t, e2e.Await(ctx, patience, func(ctx context.Context) (string, error) {
		list := &corev1.EventList{}
		err := rome.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": "Service", "involvedObject.name": own.Name, "reason": "FailedReflection"})
		if err != nil || len(list.Items) > 0 {
			return "", err
		}
		return "an event of Liqo on the Service", nil
	}))
	after := service(namespace + "-rome")
	check(t, provider.Get(ctx, client.ObjectKeyFromObject(after), after))
	if diff := cmp.Diff(foreign, after); diff != "" {
		t.Errorf("the provider's Service (-before +after):\n%s", diff)
	}
	check(t, rome.DeleteAndWait(ctx, own, patience))
	check(t, provider.Delete(ctx, foreign))
}
