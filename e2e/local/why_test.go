package local

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/commands"
)

// mostLines is how many lines "kubectl broker why" prints at most.
const mostLines = 15

// TestWhyNamesCauseAndRemedy stages the faults of docs/troubleshooting.md. For each of them, it waits until "kubectl
// broker why" names the cause and the remedy. An app team asks about its requests and pods, with the role edit in its
// namespace; the broker's administrator asks about clusters.
func TestWhyNamesCauseAndRemedy(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome := t.Context(), env.Member("rome")
	shell := shellOf(t, env)
	addAppTeam(t, rome, shell)
	explains := func(fault, object string, words ...string) {
		t.Helper()
		t.Run(fault, func(t *testing.T) { awaitWhy(t, shell, object, words) })
	}
	config := configure(t, env, brokerv1alpha1.BrokerConfigSpec{Timeouts: &brokerv1alpha1.Timeouts{Silence: &metav1.Duration{Duration: 30 * time.Second}}})

	// The agent adds no limits to pods of these requests.
	unchanged := func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Offloading = &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceNone}
	}
	served, err := rome.Request(ctx, namespace, "served", small(), unchanged)
	check(t, err)
	tooLarge := small()
	tooLarge[corev1.ResourceCPU] = resource.MustParse("900")
	_, err = rome.Request(ctx, namespace, "too-large", tooLarge)
	check(t, err)
	explains("full market", "rreq/too-large", "NoCandidate", "900 needed", "ask for less")

	waiting := createPod(t, rome, "waiting", "another", equalAmounts())
	explains("wrong nodeSelector", "pod/waiting", "the pod selects the request another, which does not exist", "has served", "correct the nodeSelector")

	check(t, rome.AwaitReady(ctx, served, readyWithin))
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "gvisor"}, Handler: "runsc"}
	check(t, rome.Create(ctx, class))
	t.Cleanup(func() { check(t, rome.Delete(context.Background(), class)) })
	createPod(t, rome, "unlimited", served.Name, corev1.ResourceRequirements{Requests: equalAmounts().Requests})
	createPod(t, rome, "sandboxed", served.Name, equalAmounts(), func(spec *corev1.PodSpec) { spec.RuntimeClassName = &class.Name })
	explains("pod without limits", "pod/unlimited", "the provider does not take the pod", "limits and requests are not equal", "set limits equal to the requests")
	explains("missing RuntimeClass", "pod/sandboxed", "the provider does not take the pod", "runtimeClassName is gvisor", "leave runtimeClassName out")

	// Until its node is Ready, the scheduler complains about the pod. The provider accepts its ShadowPod, but no pod.
	awaitEvent(t, rome, waiting, "FailedScheduling")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: offloaded, Name: "full"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}},
	}
	check(t, env.Member(served.Status.TargetClusterID).Create(ctx, quota))
	_, err = rome.Request(ctx, namespace, "another", small(), unchanged)
	check(t, err)

	whole := small()
	whole["nvidia.com/gpu"] = resource.MustParse("2")
	holds, _ := readyRequest(t, rome, "holds-all", whole)
	queued := func(priority int32) func(*agentv1alpha1.ResourceRequestSpec) {
		return func(s *agentv1alpha1.ResourceRequestSpec) {
			s.QueuePolicy, s.Priority = brokerv1alpha1.QueuePolicyQueue, priority
		}
	}
	larger, err := rome.Request(ctx, namespace, "larger", whole, queued(0))
	check(t, err)
	check(t, rome.AwaitPhase(ctx, larger, readyWithin, agentv1alpha1.RequestQueued))
	_, err = rome.Request(ctx, namespace, "smaller", withGPU(), queued(0))
	check(t, err)
	explains("queued behind a larger request", "rreq/smaller", "position 2", "e2e/larger, which asks for", "2 nvidia.com/gpu", "raise the priority")

	reconfigure(t, env, config, func(s *brokerv1alpha1.BrokerConfigSpec) {
		s.Preemption = &brokerv1alpha1.PreemptionConfig{Policy: brokerv1alpha1.PreemptLowerPriority, GracePeriod: &metav1.Duration{Duration: time.Second}}
	})
	_, err = rome.Request(ctx, namespace, "urgent", whole, queued(10))
	check(t, err)
	explains("preempted", "rreq/"+holds.Name, "FAILED", "Preempted", "a higher priority", "create another")
	explains("quota at the provider", "pod/waiting", "the provider does not take the pod", "exceeded quota: "+quota.Name, "raise the ResourceQuota in the message")

	signal(t, env, "berlin", syscall.SIGSTOP)
	t.Cleanup(func() { signal(t, env, "berlin", syscall.SIGKILL) }) // the supervisor restarts it
	publishNetworks(t, rome)
	withValue(t, env, "rome", "networking", map[string]any{"mode": "enabled"})
	_, err = rome.Request(ctx, namespace, "unconnected", small(), func(spec *agentv1alpha1.ResourceRequestSpec) {
		spec.Constraints = &brokerv1alpha1.Constraints{IncludeClusters: []string{"paris"}}
	})
	check(t, err)
	explains("network not connected", "rreq/unconnected", "NetworkPending", `network description of "paris"`, "networking.mode")
	explains("stale cluster", "cadv/berlin --context broker", "Stale for", "see its agent")

	reconfigure(t, env, config, func(s *brokerv1alpha1.BrokerConfigSpec) { s.DeniedClusters = []string{"rome"} })
	_, err = rome.Request(ctx, namespace, "denied", small())
	check(t, err)
	explains("denied cluster", "rreq/denied", "Refused", `cluster "rome" is denied`, "ask the broker's administrator")
	explains("denied cluster at the broker", "cadv/rome --context broker", "Denied", "edit the BrokerConfig")
	reconfigure(t, env, config, func(s *brokerv1alpha1.BrokerConfigSpec) { s.DeniedClusters = nil })
}

// addAppTeam adds a context to the kubeconfig of a shell and selects it. Its user has the role edit in the namespace of
// the requests.
func addAppTeam(t *testing.T, c *e2e.Cluster, shell *commands.Shell) {
	t.Helper()
	as := "kubectl --context " + c.Name + " --namespace " + namespace
	t.Cleanup(func() {
		_, err := shell.Run(context.Background(), as+" delete serviceaccount,rolebinding app-team")
		check(t, err)
	})
	_, err := shell.Run(t.Context(), as+` create serviceaccount app-team
`+as+` create rolebinding app-team --clusterrole edit --serviceaccount `+namespace+`:app-team
kubectl config set-credentials app-team --token "$(`+as+` create token app-team)"
kubectl config set-context app-team --cluster `+c.Name+` --user app-team --namespace `+namespace+`
kubectl config use-context app-team`)
	check(t, err)
}

// awaitWhy waits until the output of "kubectl broker why" contains all words.
func awaitWhy(t *testing.T, shell *commands.Shell, object string, words []string) {
	t.Helper()
	check(t, e2e.Await(t.Context(), patience, func(ctx context.Context) (string, error) {
		out, err := shell.Run(ctx, "kubectl broker why "+object)
		if err != nil {
			return "", err
		}
		for _, word := range words {
			if !strings.Contains(out, word) {
				return fmt.Sprintf("why %s to say %q, it says:\n%s", object, word, out), nil
			}
		}
		t.Log("\n" + out)
		if n := strings.Count(out, "\n"); n > mostLines {
			t.Errorf("why %s prints %d lines, want at most %d", object, n, mostLines)
		}
		return "", nil
	}))
}

// reconfigure changes the BrokerConfig.
func reconfigure(t *testing.T, env *Environment, config *brokerv1alpha1.BrokerConfig, change func(*brokerv1alpha1.BrokerConfigSpec)) {
	t.Helper()
	before := config.DeepCopy()
	change(&config.Spec)
	check(t, env.Broker.Patch(t.Context(), config, client.MergeFrom(before)))
}

// equalAmounts returns small requests with equal limits, as providers demand.
func equalAmounts() corev1.ResourceRequirements {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("32Mi")}
	return corev1.ResourceRequirements{Requests: amounts, Limits: amounts}
}

// createPod creates a pod that selects a request by name, and deletes it at the end of the test.
func createPod(t *testing.T, c *e2e.Cluster, name, request string, resources corev1.ResourceRequirements, change ...func(*corev1.PodSpec)) *corev1.Pod {
	t.Helper()
	pod := podWith(name, resources, append(change, func(spec *corev1.PodSpec) {
		spec.NodeSelector = map[string]string{agentv1alpha1.RequestLabel: request}
	})...)
	check(t, c.Create(t.Context(), pod))
	t.Cleanup(func() { check(t, c.DeleteAndWait(context.Background(), pod, patience)) })
	return pod
}

// publishNetworks does the part of Liqo's networking module that the playground lacks: it assigns CIDRs to the networks
// of a cluster, until the end of the test.
func publishNetworks(t *testing.T, c *e2e.Cluster) {
	t.Helper()
	for kind, cidr := range map[string]string{"pod-cidr": "10.240.0.0/16", "external-cidr": "10.241.0.0/16"} {
		network := e2e.Object(schema.GroupVersionKind{Group: "ipam.liqo.io", Version: "v1alpha1", Kind: "Network"}, "liqo", kind)
		network.SetLabels(map[string]string{"ipam.liqo.io/network-type": kind})
		network.Object["spec"] = map[string]any{"cidr": cidr}
		check(t, c.Create(t.Context(), network))
		t.Cleanup(func() { check(t, c.Delete(context.Background(), network)) })
		check(t, unstructured.SetNestedField(network.Object, cidr, "status", "cidr"))
		check(t, c.Status().Update(t.Context(), network))
	}
}
