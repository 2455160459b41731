package capacity

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var burstPolicies = []burst.Selection{{Namespace: "ml", Name: "default"}}

// burstPod is an unschedulable pod that the agent's webhook has prepared, the i-th of a workload.
func burstPod(i int, edit ...func(*corev1.Pod)) *corev1.Pod {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ml", Name: fmt.Sprintf("worker-%d", i), UID: types.UID(fmt.Sprintf("0b0b6f6e-8a53-4c86-9a3c-%012x", i)),
			Labels: map[string]string{"app": "worker", "apps.kubernetes.io/pod-index": fmt.Sprint(i)},
		},
		Spec: corev1.PodSpec{
			Tolerations: []corev1.Toleration{{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists}},
			Containers:  []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
		},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{unscheduled(corev1.PodReasonUnschedulable)}},
	}
	for _, f := range edit {
		f(pod)
	}
	return pod
}

func withVolume(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "a", VolumeSource: corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}}}
}

// burstWatcher returns a Watcher for one policy, which gets pods from the test.
func burstWatcher() *Watcher {
	w := New(fake.NewClientset())
	w.SelectBursts(burstPolicies)
	return w
}

func (w *Watcher) setUnbound(pod *corev1.Pod) {
	w.accounts.pending.setPod(keyOf(&pod.ObjectMeta), demandOf(pod, w.bursts.policies))
}

func TestWaitingPodsAreCountedByKind(t *testing.T) {
	w := burstWatcher()
	policy := types.NamespacedName{Namespace: "ml", Name: "default"}
	for i := range 20 {
		w.setUnbound(burstPod(i))
	}
	w.setUnbound(burstPod(0, func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Unix(500, 0) }))
	for i := 20; i < 50; i++ {
		w.setUnbound(burstPod(i, withVolume))
	}
	w.setUnbound(burstPod(50, func(p *corev1.Pod) { p.Namespace = "other" }))
	w.setUnbound(burstPod(51, func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" })) // the scheduler has nominated a node on which it evicts other pods for this one
	shape := quantity.Amounts{corev1.ResourceCPU: 1000, corev1.ResourceMemory: 1 << 30, corev1.ResourcePods: 1}
	got := w.Waiting(policy)
	slices.SortFunc(got, func(a, b burst.Waiting) int { return int(a.Pods - b.Pods) })
	want := []burst.Waiting{
		{Kind: burst.Kind{Namespace: "ml", Policy: "default"}, Shape: shape, Pods: 20, Oldest: time.Unix(500, 0)},
		{Kind: burst.Kind{Namespace: "ml", Policy: "default", Skip: burst.SkipVolume}, Shape: shape, Pods: 30, Oldest: time.Unix(700, 0)},
	}
	if len(got) == 2 && len(got[1].Examples) != maxExamples {
		t.Errorf("%d skipped pods are known by name, want %d", len(got[1].Examples), maxExamples)
	}
	for i := range got {
		for _, pod := range got[i].Examples {
			if pod.UID == "" || pod.Name == "" {
				t.Errorf("example %+v", pod)
			}
		}
		got[i].Examples = nil
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("waiting (-want +got):\n%s", diff)
	}
	if policies, _ := w.TakeBurstChanges(); !slices.Equal(policies, []types.NamespacedName{policy}) {
		t.Errorf("changed policies %v", policies)
	}
	if policies, _ := w.TakeBurstChanges(); len(policies) > 0 {
		t.Errorf("changes are reported twice: %v", policies)
	}
	for i := range 52 {
		w.accounts.pending.removePod(keyOf(&burstPod(i).ObjectMeta))
	}
	if left := w.Waiting(policy); len(left)+len(w.accounts.pending.crowds) > 0 {
		t.Errorf("%d kinds and %d crowds are left", len(left), len(w.accounts.pending.crowds))
	}
}

func TestPodIsNeverCountedAsWaitingAndRunning(t *testing.T) {
	w := burstWatcher()
	running := runningAccounts{w.accounts, w}
	pod := burstPod(1)
	w.setUnbound(pod)
	pod.Spec.NodeName = "res-k3v9x2m7qa-1"
	running.setPod(keyOf(&pod.ObjectMeta), factsOfPod(pod)) // the watch of running pods may report this earlier than the watch of pods without a node
	if got := w.Waiting(types.NamespacedName{Namespace: "ml", Name: "default"}); len(got) > 0 {
		t.Errorf("waiting: %+v", got)
	}
	if used := w.OwnRequestsOn("res-k3v9x2m7qa-1"); used[corev1.ResourceCPU] != 1000 {
		t.Errorf("the node's pods request %v", used)
	}
}

func TestPoliciesAreToldOfChangedNodes(t *testing.T) {
	w := burstWatcher()
	running := runningAccounts{w.accounts, w}
	on := func(i int, kind string) *corev1.Pod {
		return burstPod(i, func(p *corev1.Pod) {
			p.Spec.NodeName = "res-k3v9x2m7qa-1"
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "a", Controller: new(true)}}
		})
	}
	daemon, job := on(1, "DaemonSet"), on(2, "Job")
	for _, p := range []*corev1.Pod{daemon, job} {
		running.setPod(keyOf(&p.ObjectMeta), factsOfPod(p))
	}
	if _, nodes := w.TakeBurstChanges(); !slices.Equal(nodes, []string{"res-k3v9x2m7qa-1"}) {
		t.Errorf("changed nodes %v", nodes)
	}
	running.removePod(keyOf(&job.ObjectMeta))
	if _, nodes := w.TakeBurstChanges(); len(nodes) != 1 {
		t.Errorf("changed nodes %v", nodes)
	}
	running.removePod(keyOf(&daemon.ObjectMeta))
	if used := w.OwnRequestsOn("res-k3v9x2m7qa-1"); used != nil {
		t.Errorf("the pods of a node that is gone request %v", used)
	}
}

func TestNothingIsCountedWithoutPolicies(t *testing.T) {
	w := New(fake.NewClientset())
	w.setUnbound(burstPod(1))
	pod := burstPod(2, func(p *corev1.Pod) { p.Spec.NodeName = "res-k3v9x2m7qa-1" })
	runningAccounts{w.accounts, w}.setPod(keyOf(&pod.ObjectMeta), factsOfPod(pod))
	if policies, nodes := w.TakeBurstChanges(); len(policies)+len(nodes) > 0 {
		t.Errorf("changes of %v, %v", policies, nodes)
	}
}

// Whoever may edit a policy could otherwise make the API server list all pods without end.
func TestEditsOfPoliciesListPodsAtMostOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(burstPod(1))
		w := New(client)
		runtest.Start(t, w)
		<-w.Synced()
		synctest.Wait()
		lists := func() (n int) {
			for _, a := range client.Actions() {
				if a.Matches("list", "pods") {
					n++
				}
			}
			return n
		}
		before := lists()
		for i := range 100 {
			w.SelectBursts([]burst.Selection{{Namespace: "ml", Name: fmt.Sprint(i)}})
			synctest.Wait()
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := lists() - before; n != 1 {
			t.Errorf("100 edits within a second listed the pods %d times, want once", n)
		}
		if waiting := w.Waiting(types.NamespacedName{Namespace: "ml", Name: "99"}); len(waiting) != 1 {
			t.Errorf("%d kinds of pods wait for the last policy, want one", len(waiting))
		}
	})
}

// heapOf returns the memory that build leaves in use.
func heapOf(build func() *Watcher) (bytes int64, w *Watcher) {
	read := func() int64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := read()
	w = build()
	return read() - before, w
}

func waitingWatcher(pods int, policies []burst.Selection) *Watcher {
	w := New(fake.NewClientset())
	w.SelectBursts(policies)
	for i := range pods {
		w.setUnbound(burstPod(i))
	}
	return w
}

// A policy costs no memory for each pod that waits for it.
func TestPolicyTakesNoMemoryPerPod(t *testing.T) {
	const pods = 10_000
	without, a := heapOf(func() *Watcher { return waitingWatcher(pods, nil) })
	with, b := heapOf(func() *Watcher { return waitingWatcher(pods, burstPolicies) })
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	t.Logf("%d pods take %d bytes without a policy, %d with one", pods, without, with)
	if more := with - without; more > 4*pods {
		t.Errorf("a policy takes %d bytes for %d pods", more, pods)
	}
}

// BenchmarkWaiting measures a call of Waiting while pods wait and none of them changes.
func BenchmarkWaiting(b *testing.B) {
	for _, pods := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d pods", pods), func(b *testing.B) {
			w := waitingWatcher(pods, burstPolicies)
			policy := types.NamespacedName{Namespace: "ml", Name: "default"}
			b.ReportAllocs()
			for b.Loop() {
				if len(w.Waiting(policy)) != 1 {
					b.Fatal("the pods are of one kind")
				}
			}
		})
	}
}

// BenchmarkWaitingPodChanges measures how long one event about one pod takes while others wait.
func BenchmarkWaitingPodChanges(b *testing.B) {
	for _, pods := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("%d pods", pods), func(b *testing.B) {
			w := waitingWatcher(pods, burstPolicies)
			pod := burstPod(pods)
			b.ReportAllocs()
			for b.Loop() {
				w.setUnbound(pod)
				w.accounts.pending.removePod(keyOf(&pod.ObjectMeta))
			}
		})
	}
}
