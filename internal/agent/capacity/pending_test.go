package capacity

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func unscheduled(reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, LastTransitionTime: metav1.Unix(700, 0)}
}

func TestWhichPodsArePending(t *testing.T) {
	shadow := []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "p", Controller: new(true)}}
	cases := map[string]struct {
		edit func(*corev1.Pod)
		want bool
	}{
		"one that the scheduler finds no node for is":  {edit: func(*corev1.Pod) {}, want: true},
		"one that waits for victims to leave still is": {edit: func(p *corev1.Pod) { p.Status.NominatedNodeName = "n1" }, want: true},
		"one that the scheduler has not tried is not":  {edit: func(p *corev1.Pod) { p.Status.Conditions = nil }},
		"one that is held back by a gate is not": {
			edit: func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{unscheduled(corev1.PodReasonSchedulingGated)}
			},
		},
		"one that the scheduler could not try is not": {
			edit: func(p *corev1.Pod) {
				p.Status.Conditions = []corev1.PodCondition{unscheduled(corev1.PodReasonSchedulerError)}
			},
		},
		"one that is scheduled is not": {
			edit: func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionTrue },
		},
		"one that is bound is not, whatever it said before": {edit: func(p *corev1.Pod) { p.Spec.NodeName = "n1" }},
		"one that has failed is not":                        {edit: func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }},
		"one that somebody deletes is not": {
			edit: func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} },
		},
		"one that runs here for a placement is not the cluster's own": {
			edit: func(p *corev1.Pod) {
				p.OwnerReferences, p.Labels = shadow, map[string]string{originNodeLabel: "res-abcdefghij-2"}
			},
		},
		"one that selects the node of a request is not": {
			edit: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{agentv1alpha1.RequestLabel: "my-request"} },
		},
		"one that selects another node is": {
			edit: func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"disk": "ssd"} }, want: true,
		},
		"one of a peering made by hand is": {
			edit: func(p *corev1.Pod) {
				p.OwnerReferences, p.Labels = shadow, map[string]string{originNodeLabel: "worker-1"}
			}, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{container("i", list("cpu", "2"))},
					Containers:     []corev1.Container{container("a", list("cpu", "1", "memory", "1Ki", "nvidia.com/gpu", "1"))},
				},
				Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
					unscheduled(corev1.PodReasonUnschedulable), {Type: corev1.PodReady, Status: corev1.ConditionFalse},
				}},
			}
			tc.edit(pod)
			var want *wish
			if tc.want {
				want = &wish{request: request{milliCPU: 2000, memory: 1024, others: []other{{"nvidia.com/gpu", 1}}}, since: 700}
			}
			if diff := cmp.Diff(want, demandOf(pod, nil), cmp.AllowUnexported(wish{}, request{}, other{})); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
		})
	}
}

// Unschedulable pods may request amounts that no node has. Such amounts are lowered to maxPending,
// so that sums do not overflow.
func TestHugePendingRequestsAreCappedBeforeAdding(t *testing.T) {
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{Containers: []corev1.Container{
			container("a", list("cpu", "1T", "memory", "3Ei", "ephemeral-storage", "3Ei", "example.com/x", "9000T")),
		}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{unscheduled(corev1.PodReasonUnschedulable)}},
	}
	wants := demandOf(pod, nil)
	d := newDemand()
	const many = 250_000
	for i := range many {
		d.setPod(benchKey(i), wants)
	}
	want := quantity.Amounts{"pods": many}
	for _, name := range []corev1.ResourceName{"cpu", "memory", "ephemeral-storage", "example.com/x"} {
		want[name] = many << 45
	}
	if diff := cmp.Diff(want, d.sum); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	for i := range many {
		d.removePod(benchKey(i))
	}
	if len(d.sum)+len(d.pods) > 0 {
		t.Errorf("left are %v of %d pods", d.sum, len(d.pods))
	}
}

func TestDemandKnowsSinceWhenTheOldestPodWaits(t *testing.T) {
	waiting := func(since int64) *wish { return &wish{request: request{milliCPU: 1}, since: since} }
	d := newDemand()
	for i, step := range []struct {
		do   func() bool
		want int64 // in Unix seconds; 0 if no pod waits
	}{
		{func() bool { return d.setPod(benchKey(1), waiting(500)) }, 500},
		{func() bool { return d.setPod(benchKey(2), waiting(300)) }, 300},
		{func() bool { return d.setPod(benchKey(3), waiting(300)) }, 300},
		{func() bool { return d.removePod(benchKey(2)) }, 300},
		{func() bool { return d.removePod(benchKey(3)) && d.setPod(benchKey(4), waiting(600)) }, 500},
		{func() bool { return d.setPod(benchKey(1), waiting(550)) }, 550},
		{func() bool { return d.replacePods(map[podKey]*wish{benchKey(4): waiting(600)}) }, 600},
		{func() bool { return d.removePod(benchKey(4)) }, 0},
		{func() bool { return d.setPod(benchKey(5), waiting(900)) }, 900},
	} {
		if !step.do() {
			t.Errorf("step %d changed nothing", i)
		}
		got := d.waitingSince()
		if step.want == 0 && !got.IsZero() || step.want != 0 && got.Unix() != step.want {
			t.Errorf("after step %d pods wait since %v, want %d", i, got, step.want)
		}
	}
	if d.setPod(benchKey(5), waiting(900)) {
		t.Error("the same pod again is a change")
	}
}

func TestPodWithoutATimeWaitsSinceItWasCreated(t *testing.T) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.Unix(400, 0)},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
	if got := demandOf(pod, nil); got == nil || got.since != 400 {
		t.Errorf("demand is %+v, want one since 400", got)
	}
}
