package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// TestPodsThatSelectARequestCanRunThere creates pods in namespaces that Liqo does not offload, as
// with the default strategy. The affinity is left out: TestPodsStayOffNodesReservedForOthers
// covers it.
func TestPodsThatSelectARequestCanRunThere(t *testing.T) {
	const (
		tolerates = `tolerations: [{key: virtual-node.liqo.io/not-allowed, operator: Exists, effect: NoExecute}]`
		selector  = `nodeSelector: {broker.fluidos.eu/request: west}`
		qualified = `nodeSelector: {broker.fluidos.eu/request: west, broker.fluidos.eu/request-namespace: team}`
		asks      = `resources: {requests: {cpu: 100m, memory: 64Mi}}`
		equal     = `resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}`
		tokens    = `volumes: [{name: vault, projected: {sources: [{serviceAccountToken: {path: t}}]}}, {name: kube-api-access-x, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`
		more      = `resources: {requests: {cpu: 50m, memory: 64Mi}, limits: {cpu: 100m, memory: 64Mi}}`
	)
	none := &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceNone}
	for name, tt := range map[string]struct {
		offloading *agentv1alpha1.Offloading
		absent     bool
		pod, want  string
		warnings   int
	}{
		"by its name":                      {pod: `{` + selector + `, containers: [{name: a, ` + asks + `}]}`, want: `{` + qualified + `, ` + tolerates + `, containers: [{name: a, ` + equal + `}]}`},
		"limits above requests":            {warnings: 1, pod: `{` + selector + `, containers: [{name: a, ` + more + `}]}`, want: `{` + qualified + `, ` + tolerates + `, containers: [{name: a, ` + equal + `}]}`},
		"init containers too":              {pod: `{` + selector + `, initContainers: [{name: i, ` + asks + `}], containers: [{name: a, ` + asks + `}]}`, want: `{` + qualified + `, ` + tolerates + `, initContainers: [{name: i, ` + equal + `}], containers: [{name: a, ` + equal + `}]}`},
		"before the request exists":        {absent: true, pod: `{` + selector + `, containers: [{name: a, ` + asks + `}]}`, want: `{` + qualified + `, ` + tolerates + `, containers: [{name: a, ` + equal + `}]}`},
		"by the reservation":               {pod: `{nodeSelector: {broker.fluidos.eu/reservation: res-west}, containers: [{name: a, ` + asks + `}]}`, want: `{nodeSelector: {broker.fluidos.eu/reservation: res-west}, ` + tolerates + `, containers: [{name: a, ` + equal + `}]}`},
		"of another namespace by its name": {pod: `{nodeSelector: {broker.fluidos.eu/request: west, broker.fluidos.eu/request-namespace: other}, containers: [{name: a, ` + equal + `}]}`, want: `{nodeSelector: {broker.fluidos.eu/request: west, broker.fluidos.eu/request-namespace: other}, ` + tolerates + `, containers: [{name: a, ` + equal + `}]}`},
		"a request that leaves pods as they are": {
			offloading: none, pod: `{` + selector + `, containers: [{name: a, ` + asks + `}]}`, want: `{` + qualified + `, ` + tolerates + `, containers: [{name: a, ` + asks + `}]}`,
		},
		"a request that leaves pods as they are, by the reservation": {
			offloading: none, pod: `{nodeSelector: {broker.fluidos.eu/reservation: res-west}, ` + tolerates + `, containers: [{name: a, ` + asks + `}]}`,
			want: `{nodeSelector: {broker.fluidos.eu/reservation: res-west}, ` + tolerates + `, containers: [{name: a, ` + asks + `}]}`,
		},
		"without requests the pod stays as it is, with warnings": {
			pod: `{` + selector + `, containers: [{name: a}]}`, want: `{` + qualified + `, ` + tolerates + `, containers: [{name: a}]}`, warnings: 2,
		},
		"amounts of the pod as a whole": {
			pod:  `{` + selector + `, resources: {requests: {cpu: 1}}, containers: [{name: a}]}`,
			want: `{` + qualified + `, ` + tolerates + `, resources: {requests: {cpu: 1}}, containers: [{name: a}]}`, warnings: 1,
		},
		"claims, and tokens that its author asks for": {
			pod:  `{` + selector + `, resourceClaims: [{name: c}], ` + tokens + `, containers: [{name: a, ` + equal + `}]}`,
			want: `{` + qualified + `, ` + tolerates + `, resourceClaims: [{name: c}], ` + tokens + `, containers: [{name: a, ` + equal + `}]}`, warnings: 2,
		},
		"a toleration of its own suffices": {
			pod:  `{` + selector + `, tolerations: [{operator: Exists}], containers: [{name: a, ` + equal + `}]}`,
			want: `{` + qualified + `, tolerations: [{operator: Exists}], containers: [{name: a, ` + equal + `}]}`,
		},
		"a toleration that ends does not": {
			pod:  `{` + selector + `, tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}], containers: [{name: a, ` + equal + `}]}`,
			want: `{` + qualified + `, tolerations: [{operator: Exists, effect: NoExecute, tolerationSeconds: 5}, {key: virtual-node.liqo.io/not-allowed, operator: Exists, effect: NoExecute}], containers: [{name: a, ` + equal + `}]}`,
		},
		"a pod that selects nothing is left alone": {pod: `{tolerations: [{operator: Exists}], containers: [{name: a, ` + asks + `}]}`, want: `{tolerations: [{operator: Exists}], containers: [{name: a, ` + asks + `}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			rr := &agentv1alpha1.ResourceRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "west"},
				Spec:       agentv1alpha1.ResourceRequestSpec{Offloading: tt.offloading},
				Status:     agentv1alpha1.ResourceRequestStatus{ReservationName: "res-west", NodeName: "res-west-1"},
			}
			if tt.absent {
				rr.Name = "east"
			}
			c := clusterWith(t, interceptor.Funcs{}, rr)
			handler := &compliance{cache: c, reader: c}
			once, warnings := preparedPod(t, handler, "team", podOf(t, tt.pod))
			twice, _ := preparedPod(t, handler, "team", once.DeepCopy())
			if diff := cmp.Diff(once, twice); diff != "" {
				t.Errorf("asked again it changes what it has changed (-before +after):\n%s", diff)
			}
			once.Spec.Affinity = nil
			if diff := cmp.Diff(podOf(t, tt.want), once); diff != "" || len(warnings) != tt.warnings {
				t.Errorf("warnings %q (-want +got):\n%s", warnings, diff)
			}
		})
	}
}

// TestVolumesThatProvidersRefuseCauseWarnings creates a pod as a StatefulSet with a volumeClaimTemplate does, with a
// volume of each other source that providers refuse by default.
func TestVolumesThatProvidersRefuseCauseWarnings(t *testing.T) {
	c := clusterWith(t, interceptor.Funcs{})
	_, warnings := preparedPod(t, &compliance{cache: c, reader: c}, "team", podOf(t, `{nodeSelector: {broker.fluidos.eu/request: west}, volumes: [
		{name: scratch, emptyDir: {}}, {name: data, persistentVolumeClaim: {claimName: data-db-0}}, {name: settings, configMap: {name: a}},
		{name: cache, ephemeral: {}}, {name: host, hostPath: {path: /}}],
		containers: [{name: a, resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 1, memory: 1Gi}}}]}`))
	const why = " is of a type that providers refuse unless they lend it, and the pod stays Pending then: use emptyDir"
	wantBeginnings(t, warnings, []string{`spec.volumes[1]: volume "data"` + why, `spec.volumes[3]: volume "cache"` + why, `spec.volumes[4]: volume "host"` + why})
}

// TestRequestsOfOneNameDoNotAttractEachOthersPods has two requests with the name "west". The one in
// namespace mallory offloads namespace team as well.
func TestRequestsOfOneNameDoNotAttractEachOthersPods(t *testing.T) {
	team := nodeWith("res-aaaaaaaaaa-1", "broker.fluidos.eu/reservation=res-aaaaaaaaaa", "broker.fluidos.eu/request=west", "broker.fluidos.eu/request-namespace=team", "namespace.broker.fluidos.eu/team=true")
	mallory := nodeWith("res-bbbbbbbbbb-1", "broker.fluidos.eu/reservation=res-bbbbbbbbbb", "broker.fluidos.eu/request=west", "broker.fluidos.eu/request-namespace=mallory", "namespace.broker.fluidos.eu/mallory=true", "namespace.broker.fluidos.eu/team=true")
	affinity := func(terms string) string {
		return `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}, containers: [{name: a}]}`
	}
	for name, tt := range map[string]struct{ pod, want string }{
		"by a node selector":                 {`{nodeSelector: {broker.fluidos.eu/request: west}, containers: [{name: a}]}`, "res-aaaaaaaaaa-1"},
		"by an affinity":                     {affinity(`{matchExpressions: [{key: broker.fluidos.eu/request, operator: In, values: [west]}]}`), "res-aaaaaaaaaa-1"},
		"by an affinity, or in this cluster": {affinity(`{matchExpressions: [{key: broker.fluidos.eu/request, operator: In, values: [west]}]}, {matchExpressions: [{key: liqo.io/type, operator: DoesNotExist}]}`), "res-aaaaaaaaaa-1 worker"},
		"the other on purpose":               {`{nodeSelector: {broker.fluidos.eu/request: west, broker.fluidos.eu/request-namespace: mallory}, containers: [{name: a}]}`, "res-bbbbbbbbbb-1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, node := range []*corev1.Node{team, mallory} {
				node.Labels["liqo.io/type"] = "virtual-node"
			}
			c := clusterWith(t, interceptor.Funcs{})
			pod, _ := preparedPod(t, &compliance{cache: c, reader: c}, "team", podOf(t, tt.pod))
			got := nodesAmong(t, pod, team, mallory, worker)
			if diff := cmp.Diff(strings.Fields(tt.want), got, cmp.Transformer("set", asSet)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

// preparedPod returns a pod as the webhook changes it, and its warnings.
func preparedPod(t *testing.T, handler *compliance, namespace string, pod *corev1.Pod) (*corev1.Pod, []string) {
	t.Helper()
	verdict, _ := handler.preparePod(t.Context(), pod, namespace)
	if len(verdict.Errors) > 0 {
		t.Fatalf("refused: %s", verdict.Errors.ToAggregate())
	}
	return pod, verdict.Warnings
}
