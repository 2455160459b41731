package liqo

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func amounts(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

// TestBrokerLearnsOfPodsThatWerePromisedANode changes one fact of a placement whose only pod has the
// size of the request's podShapes, and no node at the provider.
func TestBrokerLearnsOfPodsThatWerePromisedANode(t *testing.T) {
	type facts struct {
		inst       *agentv1alpha1.ReservationInstruction
		request    *agentv1alpha1.ResourceRequest
		pod        *corev1.Pod
		unaccepted bool
		runs       bool
	}
	for name, tt := range map[string]struct {
		change   func(*facts)
		unserved bool
	}{
		"as it was promised":          {func(*facts) {}, true},
		"the pod is smaller":          {func(f *facts) { f.pod.Spec.Containers[0].Resources.Requests = amounts("500m", "1Gi") }, true},
		"it selects its virtual node": {func(f *facts) { f.pod.Spec.NodeSelector = map[string]string{agentv1alpha1.RequestLabel: "r"} }, true},
		"the pod is larger":           {func(f *facts) { f.pod.Spec.Containers[0].Resources.Requests = amounts("1", "2Gi") }, false},
		"an init container is larger": {func(f *facts) {
			f.pod.Spec.InitContainers = []corev1.Container{{Name: "i", Resources: corev1.ResourceRequirements{Requests: amounts("3", "1Gi")}}}
		}, false},
		"it wants what the shape does not": {func(f *facts) {
			f.pod.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse("1")
		}, false},
		"the request names no pods":              {func(f *facts) { f.request.Spec.PodShapes = nil }, false},
		"the request was created again":          {func(f *facts) { f.inst.Spec.RequestRef.UID = "older" }, false},
		"the request is gone":                    {func(f *facts) { f.inst.Spec.RequestRef.Name = "gone" }, false},
		"the reservation was made by the broker": {func(f *facts) { f.inst.Spec.RequestRef = nil }, false},
		"it spreads over zones": {func(f *facts) {
			f.pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}
		}, false},
		"it needs a port of the node": {func(f *facts) { f.pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, false},
		"it needs a volume": {func(f *facts) {
			f.pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, false},
		"its runtime adds to its size":      {func(f *facts) { f.pod.Spec.RuntimeClassName = new("kata") }, false},
		"another pod runs there":            {func(f *facts) { f.runs = true }, false},
		"the provider has refused the copy": {func(f *facts) { f.unaccepted = true }, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.reserve("rome", "paris", "res-a")
				w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
				f := facts{
					inst: w.consumes("rome", "res-a"),
					request: &agentv1alpha1.ResourceRequest{
						ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "r", UID: "r-uid"},
						Spec: agentv1alpha1.ResourceRequestSpec{Requirements: brokerv1alpha1.Requirements{
							PodShapes: []brokerv1alpha1.PodShape{{Count: 2, Resources: brokerv1alpha1.PodResources(amounts("1", "1Gi"))}},
						}},
					},
					pod: &corev1.Pod{
						ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p", UID: "p-uid"},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts("1", "1Gi")}}}},
					},
				}
				f.inst.Spec.RequestRef = &agentv1alpha1.RequestReference{Namespace: "demo", Name: "r", UID: "r-uid"}
				tt.change(&f)
				p := w.sites["rome"].peering
				one, none := func(string, time.Time) (int, string) { return 1, "demo/p" }, func(string, time.Time) (int, string) { return 0, "" }
				p.opts.Unaccepted, p.opts.Unplaced = none, one
				if f.unaccepted {
					p.opts.Unaccepted = one
				}
				p.opts.Runs = func(string) bool { return f.runs }
				w.check(w.sites["rome"].client.Create(t.Context(), f.request))
				w.check(w.sites["rome"].client.Create(t.Context(), f.pod))
				state, err := p.Consume(t.Context(), f.inst)
				w.check(err)
				if state.Health.Reason != agentv1alpha1.ReasonPodsRejected || state.Unserved != tt.unserved {
					t.Errorf("got %+v, unserved %v; want %v", state.Health, state.Unserved, tt.unserved)
				}
			})
		})
	}
}
