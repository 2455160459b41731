package capacity

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPodsWaitUntilTheirNodeAcceptsThem takes the statuses from a real cluster with Liqo 1.2.
func TestPodsWaitUntilTheirNodeAcceptsThem(t *testing.T) {
	bound := time.Unix(1000, 0)
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)}
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		before time.Time
		waits  bool
		// unplaced is true for a pod that waits for a node of the provider.
		unplaced bool
		// runs is true for a pod that has a node of the provider.
		runs bool
	}{
		"the provider refused it, so only the scheduler wrote a status": {change: func(*corev1.Pod) {}, waits: true},
		"it was bound only now": {change: func(*corev1.Pod) {}, before: bound},
		"its namespace is not offloaded": {change: func(p *corev1.Pod) {
			p.Status.Reason = "OffloadingBackOff"
			p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = corev1.ConditionFalse, "OffloadingBackOff"
		}, waits: true},
		"the provider has not looked for a node yet": {change: func(p *corev1.Pod) { p.Status.HostIP, p.Status.Conditions = "10.0.0.9", nil }, runs: true},
		"the provider has no node for its copy": {change: func(p *corev1.Pod) {
			p.Status.HostIP = "10.0.0.9"
			p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = corev1.ConditionFalse, corev1.PodReasonUnschedulable
		}, unplaced: true},
		"the provider had no node only now": {change: func(p *corev1.Pod) {
			p.Status.HostIP = "10.0.0.9"
			p.Status.Conditions[0].Status, p.Status.Conditions[0].Reason = corev1.ConditionFalse, corev1.PodReasonUnschedulable
		}, before: bound},
		"the provider has found a node": {change: func(p *corev1.Pod) { p.Status.HostIP = "10.0.0.9" }, runs: true},
		"it runs":                       {change: func(p *corev1.Pod) { p.Status.Phase, p.Status.HostIP = corev1.PodRunning, "10.0.0.9" }, runs: true},
		"it is being deleted":           {change: func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.NewTime(bound)) }, runs: true},
		"it has ended":                  {change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"it has no node":                {change: func(p *corev1.Pod) { p.Spec.NodeName = "" }},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "a", UID: "1", CreationTimestamp: metav1.Unix(500, 0)},
				Spec:       corev1.PodSpec{NodeName: "res-a-1"},
				Status:     corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{scheduled}},
			}
			tt.change(pod)
			if tt.before.IsZero() {
				tt.before = bound.Add(time.Second)
			}
			a := newAccounts()
			a.setPod(keyOf(&pod.ObjectMeta), factsOfPod(pod))
			w := &Watcher{accounts: a}
			if n, which := w.Unaccepted("res-a-1", tt.before); n == 1 != tt.waits || tt.waits && which != "demo/a" {
				t.Errorf("%d pods wait, such as %q", n, which)
			}
			if n, which := w.Unplaced("res-a-1", tt.before); n == 1 != tt.unplaced || tt.unplaced && which != "demo/a" {
				t.Errorf("%d pods wait for a node of the provider, such as %q", n, which)
			}
			if got := w.Runs("res-a-1"); got != tt.runs {
				t.Errorf("runs: %v", got)
			}
		})
	}
}

func TestWaitingPodsAreCountedPerNode(t *testing.T) {
	a := newAccounts()
	w := &Watcher{accounts: a}
	late := time.Unix(100, 0)
	bind := func(id byte, node, name string, since int64) bool {
		facts := podFacts{node: node}
		if name != "" {
			facts.waiting = waitingPod{since: since, name: name}
		}
		return a.setPod(podKey{id}, facts)
	}
	want := func(node string, count int, longest string) {
		t.Helper()
		if n, which := w.Unaccepted(node, late); n != count || which != longest {
			t.Errorf("%s: %d pods wait, %q for longest; want %d, %q", node, n, which, count, longest)
		}
	}
	want("res-a-1", 0, "")
	bind(1, "res-a-1", "demo/late", 20)
	bind(2, "res-a-1", "demo/first", 10)
	bind(3, "res-b-1", "demo/other", 5)
	want("res-a-1", 2, "demo/first")
	if bind(2, "res-a-1", "", 0) {
		t.Error("an accepted pod changes no figure of the cluster")
	}
	want("res-a-1", 1, "demo/late")
	a.removePod(podKey{1})
	want("res-a-1", 0, "")
	a.replacePods(nil)
	want("res-b-1", 0, "")
}
