package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func virtualNode(request, reservation, provider string) reservedNode {
	return reservedNode{Request: request, Reservation: reservation, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: reservation + "-1", Labels: map[string]string{
			"liqo.io/type": "virtual-node", "liqo.io/remote-cluster-id": provider,
			"broker.fluidos.eu/reservation": reservation, "kubernetes.io/hostname": reservation + "-1",
		},
	}}}
}

func TestPodsOfReservationsComply(t *testing.T) {
	const (
		pinned = `nodeSelector: {broker.fluidos.eu/reservation: res-west}`
		equal  = `resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}`
		asks   = `resources: {requests: {cpu: 100m, memory: 64Mi}}`
	)
	west, central := virtualNode("team/west", "res-west", "paris"), virtualNode("team/central", "res-central", "berlin")
	for name, tc := range map[string]struct {
		nodes []reservedNode
		pod   string
		// want is the resulting spec of the pod; "" means unchanged.
		want             string
		errors, warnings []string
	}{
		"requests become limits": {
			pod:  `{containers: [{name: a, ` + asks + `}]}`,
			want: `{` + pinned + `, containers: [{name: a, ` + equal + `}]}`,
		},
		"limits are never lowered: requests are raised to them": {
			pod:      `{containers: [{name: a, resources: {requests: {cpu: 50m, memory: 1Mi}, limits: {cpu: 100m, memory: 64Mi}}}]}`,
			want:     `{` + pinned + `, containers: [{name: a, ` + equal + `}]}`,
			warnings: []string{`container "a": the request of cpu is raised from 50m to its limit 100m`, `container "a": the request of memory is raised from 1Mi to its limit 64Mi`},
		},
		"a request for one resource and a limit for another": {
			pod:  `{containers: [{name: a, resources: {requests: {cpu: 100m}, limits: {memory: 64Mi}}}]}`,
			want: `{` + pinned + `, containers: [{name: a, ` + equal + `}]}`,
		},
		"init containers and sidecars too": {
			pod:  `{initContainers: [{name: i, ` + asks + `}, {name: s, restartPolicy: Always, ` + asks + `}], containers: [{name: a, ` + asks + `}]}`,
			want: `{` + pinned + `, initContainers: [{name: i, ` + equal + `}, {name: s, restartPolicy: Always, ` + equal + `}], containers: [{name: a, ` + equal + `}]}`,
		},
		"ephemeral storage and devices too": {
			pod:      `{containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi, ephemeral-storage: 1Gi}, limits: {nvidia.com/gpu: 1, ephemeral-storage: 2Gi}}}]}`,
			warnings: []string{`container "a": the request of ephemeral-storage is raised from 1Gi to its limit 2Gi`},
			want:     `{` + pinned + `, containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi, ephemeral-storage: 2Gi, nvidia.com/gpu: 1}, limits: {cpu: 1, memory: 1Gi, ephemeral-storage: 2Gi, nvidia.com/gpu: 1}}}]}`,
		},
		"other selectors stay": {
			pod:  `{nodeSelector: {liqo.io/remote-cluster-id: paris}, containers: [{name: a, ` + equal + `}]}`,
			want: `{nodeSelector: {liqo.io/remote-cluster-id: paris, broker.fluidos.eu/reservation: res-west}, containers: [{name: a, ` + equal + `}]}`,
		},
		"a compliant pod stays unchanged": {pod: `{` + pinned + `, containers: [{name: a, ` + equal + `}]}`},
		"the same amount in another notation stays unchanged": {
			pod: `{` + pinned + `, containers: [{name: a, resources: {requests: {cpu: 0.1, memory: 65536Ki}, limits: {cpu: 100m, memory: 64Mi}}}]}`,
		},
		"pod-level resources do not count for containers": {
			pod:    `{resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}, containers: [{name: a}]}`,
			errors: []string{"spec.resources: Invalid value: Liqo copies and counts only the amounts of containers: set requests and limits in spec.containers[].resources"},
		},
		"a container without memory is refused": {
			pod:    `{initContainers: [{name: i, resources: {requests: {cpu: 1}}}], containers: [{name: a, ` + asks + `}]}`,
			errors: []string{"spec.initContainers[0].resources.requests[memory]: Required value: the provider of ResourceRequest team/west admits no pod without it"},
		},
		"a pod for another provider stays unchanged": {
			pod: `{nodeSelector: {kubernetes.io/hostname: mine}, containers: [{name: a}]}`,
		},
		"a pod for this cluster stays unchanged": {
			pod: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: liqo.io/type, operator: NotIn, values: [virtual-node]}]}]}}}, containers: [{name: a}]}`,
		},
		"a pod of a DaemonSet stays unchanged": {
			pod: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: metadata.name, operator: In, values: [mine]}]}]}}}, containers: [{name: a}]}`,
		},
		"a pod pinned to another reservation stays unchanged": {
			pod: `{nodeSelector: {broker.fluidos.eu/reservation: res-other}, containers: [{name: a}]}`,
		},
		"a pod with a node stays unchanged":    {pod: `{nodeName: res-west-1, containers: [{name: a}]}`},
		"no request has podCompliance Enforce": {nodes: []reservedNode{}, pod: `{containers: [{name: a}]}`},
		"affinity that cannot be parsed":       {pod: `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Near}]}]}}}, containers: [{name: a}]}`},
		"several requests: the pod must choose one": {
			nodes: []reservedNode{west, central}, pod: `{containers: [{name: a, ` + asks + `}]}`,
			warnings: []string{"the pod is not pinned, because several ResourceRequests offload this namespace: team/west, team/central; choose one"},
		},
		"several requests: the pod chooses a reservation": {
			nodes: []reservedNode{west, central}, pod: `{` + pinned + `, containers: [{name: a, ` + asks + `}]}`,
			want: `{` + pinned + `, containers: [{name: a, ` + equal + `}]}`,
		},
		"several requests: the pod chooses a provider": {
			nodes: []reservedNode{central, west}, pod: `{nodeSelector: {liqo.io/remote-cluster-id: paris}, containers: [{name: a, ` + asks + `}]}`,
			want: `{nodeSelector: {liqo.io/remote-cluster-id: paris, broker.fluidos.eu/reservation: res-west}, containers: [{name: a, ` + equal + `}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.nodes == nil {
				tc.nodes = []reservedNode{west}
			}
			pod, before := podOf(t, tc.pod), podOf(t, tc.pod)
			v, changed := makeCompliant(pod, tc.nodes)
			var said []string
			for _, err := range v.Errors {
				said = append(said, err.Error())
			}
			wantBeginnings(t, said, tc.errors)
			wantBeginnings(t, v.Warnings, tc.warnings)
			if len(tc.errors) > 0 {
				return
			}
			want := before
			if tc.want != "" {
				want = podOf(t, tc.want)
			}
			if diff := cmp.Diff(want, pod); diff != "" || changed != (tc.want != "") {
				t.Errorf("changed %t (-want +got):\n%s", changed, diff)
			}
			if again, changed := makeCompliant(pod, tc.nodes); changed || len(again.Errors) > 0 {
				t.Error("asked again it changes what it has changed")
			}
		})
	}
}

func podOf(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	pod := &corev1.Pod{}
	runtest.Check(t, yaml.UnmarshalStrict([]byte("spec: "+strings.ReplaceAll(spec, "\t", " ")), pod))
	return pod
}
