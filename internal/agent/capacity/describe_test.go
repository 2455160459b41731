package capacity

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const overheadClass = "sandboxed"

// Allocated amounts equal those of kubectl describe node. Pending amounts equal what is
// allocated after binding.
func TestAllocatedIsWhatKubectlDescribes(t *testing.T) {
	ctx, plane := t.Context(), controlplanetest.Start(t)
	client, err := kubernetes.NewForConfig(plane.RESTConfig())
	runtest.Check(t, err)
	seed := uint64(time.Now().UnixNano()) //nolint:gosec // the test must pass with every seed
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	runtest.Check(t, createNode(ctx, client))
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: overheadClass}, Handler: "sandbox",
		Overhead: &nodev1.Overhead{PodFixed: list("cpu", "30m", "memory", "20Mi")}}
	_, err = client.NodeV1().RuntimeClasses().Create(ctx, class, metav1.CreateOptions{})
	runtest.Check(t, err)

	w := New(client)
	watching, stop := context.WithCancel(ctx)
	done := make(chan error)
	go func() { done <- w.Start(watching) }()
	const pods = 40
	left := int64(0)
	for i := range pods {
		phase := corev1.PodRunning
		if rng.IntN(5) == 0 {
			phase = corev1.PodSucceeded
		} else {
			left++
		}
		runtest.Check(t, createPod(ctx, client, randomPod(rng, i), phase))
	}

	want, err := quantity.FromResourceList(describedRequests(ctx, t, plane.Kubeconfig()))
	runtest.Check(t, err)
	want["pods"] = left
	expect := func(allocated, pending quantity.Amounts, where string) {
		t.Helper()
		err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			s := w.Snapshot()
			return s.Allocated.Equal(allocated) && s.Pending.Equal(pending), nil
		})
		if err != nil {
			s := w.Snapshot()
			t.Errorf("%s: %v allocated and %v pending, the agent counts %v and %v", where, allocated, pending, s.Allocated, s.Pending)
		}
	}
	expect(want, nil, "kubectl describes")

	untried, gated := unboundPod("untried"), unboundPod("gated")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/quota"}}
	gated.Status.Conditions = []corev1.PodCondition{unscheduled(corev1.PodReasonSchedulingGated)}
	bound, deleted := unboundPod("bound"), unboundPod("deleted")
	bound.Status.Conditions = []corev1.PodCondition{unscheduled(corev1.PodReasonUnschedulable)}
	deleted.Status.Conditions = bound.Status.Conditions
	for _, pod := range []*corev1.Pod{untried, gated, bound, deleted} {
		runtest.Check(t, createPod(ctx, client, pod, corev1.PodPending))
	}
	one := quantity.Amounts{"cpu": 1000, "memory": 1 << 20, "pods": 1}
	expect(want, one.Times(2), "two find no node")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: bound.Name}, Target: corev1.ObjectReference{Kind: "Node", Name: "n1"}}
	runtest.Check(t, client.CoreV1().Pods(metav1.NamespaceDefault).Bind(ctx, binding, metav1.CreateOptions{}))
	expect(want.Add(one), one, "one of them is bound")
	runtest.Check(t, client.CoreV1().Pods(metav1.NamespaceDefault).Delete(ctx, deleted.Name, metav1.DeleteOptions{}))
	expect(want.Add(one), nil, "the other is deleted")
	stop()
	runtest.Check(t, <-done)
}

func unboundPod(name string) *corev1.Pod {
	c := container("a", list("cpu", "1", "memory", "1Mi"))
	c.Image = "registry.k8s.io/pause:3.10"
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{c}},
	}
}

func createNode(ctx context.Context, client kubernetes.Interface) error {
	node := readyNode(func(n *corev1.Node) {
		n.Status.Capacity = list("cpu", "64", "memory", "256Gi", "ephemeral-storage", "1Ti", "pods", "110", "nvidia.com/gpu", "100")
		n.Status.Allocatable = n.Status.Capacity
	})
	status := node.Status
	node, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status = status
	_, err = client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	return err
}

func createPod(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, phase corev1.PodPhase) error {
	status := pod.Status
	pod, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status = status
	pod.Status.Phase = phase
	_, err = client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// randomPod returns a pod that may have init containers, sidecars, and an overhead or a resize that its kubelet has not
// applied yet, so that its requests are often not just the sum over its containers. It has no pod-level resources: the
// scheduler and the agent count them, whereas kubectl v1.35 shows those of the containers instead.
func randomPod(rng *rand.Rand, n int) *corev1.Pod {
	amounts := func() corev1.ResourceList {
		out := corev1.ResourceList{}
		for name, most := range map[corev1.ResourceName]int64{"cpu": 900, "memory": 500 << 20, "ephemeral-storage": 1 << 30, "nvidia.com/gpu": 2} {
			amount := *resource.NewQuantity(rng.Int64N(most), resource.BinarySI)
			if name == corev1.ResourceCPU {
				amount = *resource.NewMilliQuantity(rng.Int64N(most), resource.DecimalSI)
			}
			if rng.IntN(3) > 0 {
				out[name] = amount
			}
		}
		return out
	}
	one := func(name string) corev1.Container {
		c := container(name, amounts())
		c.Image = "registry.k8s.io/pause:3.10"
		if gpus, ok := c.Resources.Requests["nvidia.com/gpu"]; ok {
			c.Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": gpus} // Kubernetes sets the request of an extended resource to its limit
		}
		return c
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("p%d", n)},
		Spec:       corev1.PodSpec{NodeName: "n1"},
	}
	for i := range 1 + rng.IntN(3) {
		pod.Spec.Containers = append(pod.Spec.Containers, one(fmt.Sprintf("c%d", i)))
	}
	for i := range rng.IntN(3) {
		c := one(fmt.Sprintf("i%d", i))
		if rng.IntN(2) == 0 {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
	}
	switch rng.IntN(3) {
	case 0:
		pod.Spec.RuntimeClassName = new(overheadClass)
	case 1:
		if c := &pod.Spec.Containers[0]; len(c.Resources.Requests) == 0 {
			c.Resources.Requests = list("cpu", "1m") // kubectl v1.35 crashes on a resize from nothing
		}
		before := list("cpu", fmt.Sprintf("%dm", 1+rng.IntN(900)), "memory", fmt.Sprintf("%dMi", 1+rng.IntN(500)))
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "c0", AllocatedResources: before, Resources: &corev1.ResourceRequirements{Requests: before},
		}}
	}
	return pod
}

// describedRequests returns the requests of node n1 that kubectl describe node shows under "Allocated resources".
func describedRequests(ctx context.Context, t *testing.T, kubeconfig string) corev1.ResourceList {
	t.Helper()
	tools, err := toolchain.New(progress.Discard)
	runtest.Check(t, err)
	runtest.Check(t, tools.Ensure(ctx, toolchain.Kubectl))
	out, err := exec.CommandContext(ctx, tools.Path(toolchain.Kubectl), "--kubeconfig", kubeconfig, "describe", "node", "n1").CombinedOutput()
	if err != nil {
		t.Fatalf("kubectl describe node: %v: %s", err, out)
	}
	_, table, found := strings.Cut(string(out), "Allocated resources:")
	table, _, ended := strings.Cut(table, "\nEvents:")
	if !found || !ended {
		t.Fatalf("kubectl describe node says nothing of what is allocated:\n%s", out)
	}
	described := corev1.ResourceList{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		if amount, err := resource.ParseQuantity(fields[1]); err == nil && !amount.IsZero() {
			described[corev1.ResourceName(fields[0])] = amount
		}
	}
	if len(described) < 4 {
		t.Fatalf("described are %v:\n%s", described, table)
	}
	return described
}
