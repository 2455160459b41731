package capacity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGuestsAreThePodsOfWorkloads(t *testing.T) {
	a := newAccounts()
	w := &Watcher{accounts: a, runningKnown: true}
	pod := func(name, owner string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, Spec: corev1.PodSpec{NodeName: "res-a-1"}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: owner, Name: "x", Controller: new(true)}}
		}
		for _, c := range change {
			c(p)
		}
		return p
	}
	add := func(p *corev1.Pod) { a.setPod(keyOf(&p.ObjectMeta), factsOfPod(p)) }
	want := func(when string, now int, came uint64, known bool) {
		t.Helper()
		if got, ok := w.GuestsOn("res-a-1"); ok != known || got != (Guests{Now: now, Came: came}) {
			t.Errorf("%s: %+v (known %t), want %d now, %d in all (%t)", when, got, ok, now, came, known)
		}
	}
	web := pod("web", "ReplicaSet")
	add(web)
	want("before its node is known", 0, 0, false)
	a.setNode("res-a-1", nodeFacts{})
	want("a pod of a ReplicaSet", 1, 1, true)
	add(web)
	want("an update", 1, 1, true)
	add(pod("proxy", "DaemonSet"))
	add(pod("static", "", func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"} }))
	add(pod("done", "Job", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))
	add(pod("elsewhere", "", func(p *corev1.Pod) { p.Spec.NodeName = "worker" }))
	want("pods that do not count", 1, 1, true)
	add(pod("bare", ""))
	want("a bare pod", 2, 2, true)
	a.removePod(keyOf(&web.ObjectMeta))
	web.Status.Phase = corev1.PodFailed
	add(web)
	want("a finished pod", 1, 2, true)
	w.runningKnown = false
	want("before the pods are listed", 0, 0, false)
}
