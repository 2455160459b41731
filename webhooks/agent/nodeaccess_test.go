package agent

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func nodeWith(name string, labels ...string) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"kubernetes.io/hostname": name}}}
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		node.Labels[key] = value
	}
	return node
}

var (
	worker = nodeWith("worker")
	// unreservedNode is a virtual node that a user created, without a reservation.
	unreservedNode = nodeWith("mine", "liqo.io/type=virtual-node")
	ofAlice        = nodeWith("res-aaaaaaaaaa-1", "liqo.io/type=virtual-node", "broker.fluidos.eu/reservation=res-aaaaaaaaaa", "namespace.broker.fluidos.eu/alice=true")
	ofBoth         = nodeWith("res-bbbbbbbbbb-1", "liqo.io/type=virtual-node", "broker.fluidos.eu/reservation=res-bbbbbbbbbb", "namespace.broker.fluidos.eu/alice=true", "namespace.broker.fluidos.eu/bob=true")
	ofAll          = nodeWith("res-cccccccccc-1", "liqo.io/type=virtual-node", "broker.fluidos.eu/reservation=res-cccccccccc", "broker.fluidos.eu/shared=true")
	// unopened is a virtual node that the agent has not yet labelled with the namespaces that may
	// use it.
	unopened = nodeWith("res-dddddddddd-1", "liqo.io/type=virtual-node", "broker.fluidos.eu/reservation=res-dddddddddd")
)

// TestPodsStayOffNodesReservedForOthers uses the scheduler's own matching to decide which nodes a
// pod can use.
func TestPodsStayOffNodesReservedForOthers(t *testing.T) {
	const (
		everywhere = "worker mine res-cccccccccc-1"
		bobs       = everywhere + " res-bbbbbbbbbb-1"
		alices     = bobs + " res-aaaaaaaaaa-1"
	)
	affinity := func(terms string) string {
		return `{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [` + terms + `]}}}, containers: [{name: a}]}`
	}
	for name, tt := range map[string]struct{ namespace, pod, want string }{
		"of the namespace that reserved":           {"alice", `{containers: [{name: a}]}`, alices},
		"of a namespace that shares a reservation": {"bob", `{containers: [{name: a}]}`, bobs},
		"of a namespace without any":               {"carol", `{containers: [{name: a}]}`, everywhere},
		"that selects its own reservation":         {"alice", `{nodeSelector: {broker.fluidos.eu/reservation: res-aaaaaaaaaa}, containers: [{name: a}]}`, "res-aaaaaaaaaa-1"},
		"that selects another's reservation":       {"bob", `{nodeSelector: {broker.fluidos.eu/reservation: res-aaaaaaaaaa}, containers: [{name: a}]}`, ""},
		"that selects another's node":              {"bob", `{nodeSelector: {kubernetes.io/hostname: res-aaaaaaaaaa-1}, containers: [{name: a}]}`, ""},
		"that selects virtual nodes":               {"bob", `{nodeSelector: {liqo.io/type: virtual-node}, containers: [{name: a}]}`, "mine res-cccccccccc-1 res-bbbbbbbbbb-1"},
		"that wants another's node by its name":    {"bob", affinity(`{matchFields: [{key: metadata.name, operator: In, values: [res-aaaaaaaaaa-1]}]}`), ""},
		"of a DaemonSet, for its own node":         {"alice", affinity(`{matchFields: [{key: metadata.name, operator: In, values: [res-aaaaaaaaaa-1]}]}`), "res-aaaaaaaaaa-1"},
		"with alternatives":                        {"bob", affinity(`{matchFields: [{key: metadata.name, operator: In, values: [res-aaaaaaaaaa-1]}]}, {matchExpressions: [{key: kubernetes.io/hostname, operator: In, values: [worker]}]}`), "worker"},
		"with a requirement that looks like ours":  {"bob", affinity(`{matchExpressions: [{key: namespace.broker.fluidos.eu/alice, operator: Exists}]}`), "res-bbbbbbbbbb-1"},
		"with another operator on the same key":    {"bob", affinity(`{matchExpressions: [{key: broker.fluidos.eu/reservation, operator: Exists}]}`), "res-cccccccccc-1 res-bbbbbbbbbb-1"},
		"that shuns nodes of a label":              {"bob", affinity(`{matchExpressions: [{key: broker.fluidos.eu/shared, operator: DoesNotExist}]}`), "worker mine res-bbbbbbbbbb-1"},
		"with a term that matches nothing":         {"bob", affinity(`{}`), ""},
		"with no terms":                            {"bob", affinity(``), ""},
		"that wants what is preferred":             {"bob", `{affinity: {nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Exists}]}}]}}, containers: [{name: a}]}`, bobs},
		"with an affinity to other pods":           {"bob", `{affinity: {podAffinity: {}}, containers: [{name: a}]}`, bobs},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, tt.pod)
			confineToNamespace(pod, tt.namespace, true)
			if diff := cmp.Diff(strings.Fields(tt.want), nodesFor(t, pod), cmp.Transformer("set", asSet)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if before := pod.DeepCopy(); confineToNamespace(pod, tt.namespace, true) || cmp.Diff(before, pod) != "" {
				t.Error("asked again it changes what it has changed")
			}
		})
	}
}

// Pods that do not select a reservation may tolerate every node.
func TestOtherPodsStayOffAllReservedNodes(t *testing.T) {
	for name, tt := range map[string]struct{ pod, want string }{
		"without affinity": {`{containers: [{name: a}]}`, "worker mine"},
		"with an affinity of their own": {
			`{affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: kubernetes.io/hostname, operator: NotIn, values: [mine]}]}]}}}, containers: [{name: a}]}`, "worker",
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := podOf(t, tt.pod)
			confineToNamespace(pod, "alice", false)
			if diff := cmp.Diff(strings.Fields(tt.want), nodesFor(t, pod), cmp.Transformer("set", asSet)); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
			if before := pod.DeepCopy(); confineToNamespace(pod, "alice", false) || cmp.Diff(before, pod) != "" {
				t.Error("asked again it changes what it has changed")
			}
		})
	}
}

func nodesFor(t *testing.T, pod *corev1.Pod) []string {
	t.Helper()
	return nodesAmong(t, pod, worker, unreservedNode, ofAll, ofBoth, ofAlice, unopened)
}

// nodesAmong returns the nodes that the scheduler's own matching allows.
func nodesAmong(t *testing.T, pod *corev1.Pod, nodes ...*corev1.Node) (names []string) {
	t.Helper()
	for _, node := range nodes {
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); err != nil {
			t.Fatal(err)
		} else if ok {
			names = append(names, node.Name)
		}
	}
	return names
}

func asSet(names []string) map[string]bool {
	set := map[string]bool{}
	for _, name := range names {
		set[name] = true
	}
	return set
}

func TestPodsThatNameANodeAreRefusedOnReservedNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		namespace, node string
		away            bool
		refused         string // part of the message; "" if it is let in
	}{
		"the own reservation's":                {namespace: "alice", node: ofAlice.Name},
		"a shared reservation's":               {namespace: "bob", node: ofBoth.Name},
		"a reservation's without request":      {namespace: "carol", node: ofAll.Name},
		"another's":                            {namespace: "bob", node: ofAlice.Name, refused: `node "res-aaaaaaaaaa-1" is reserved, and not for namespace "bob"`},
		"a node that no namespace may use yet": {namespace: "alice", node: unopened.Name, refused: "is reserved"},
		"a node that does not exist":           {namespace: "bob", node: "res-aaaaaaaaaa-2", refused: "there is no node"},
		"none":                                 {namespace: "bob"},
		"a node that cannot be read":           {namespace: "alice", node: ofAlice.Name, away: true, refused: "API server is away"},
	} {
		t.Run(name, func(t *testing.T) {
			funcs := interceptor.Funcs{}
			if tt.away {
				funcs.Get = func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
					return errors.New("the API server is away")
				}
			}
			b := &boundPods{nodes: clusterWith(t, funcs, ofAlice.DeepCopy(), ofBoth.DeepCopy(), ofAll.DeepCopy(), unopened.DeepCopy())}
			pod := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: tt.namespace, Object: runtime.RawExtension{Raw: []byte(`{"spec":{"nodeName":"` + tt.node + `"}}`)},
			}}
			binding := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Namespace: tt.namespace, SubResource: "binding", Object: runtime.RawExtension{Raw: []byte(`{"target":{"kind":"Node","name":"` + tt.node + `"}}`)},
			}}
			posted := binding
			posted.SubResource, posted.Resource = "", metav1.GroupVersionResource{Version: "v1", Resource: "bindings"}
			for what, req := range map[string]admission.Request{"pod": pod, "binding of the pod": binding, "binding": posted} {
				got := b.Handle(t.Context(), req)
				if got.Allowed != (tt.refused == "") || !got.Allowed && !strings.Contains(got.Result.Message, tt.refused) {
					t.Errorf("%s: got %+v, want refused %q", what, got.AdmissionResponse, tt.refused)
				}
			}
		})
	}
}

func TestPodsPinnedToAnothersReservationAreRefused(t *testing.T) {
	c := clusterWith(t, interceptor.Funcs{}, ofAlice.DeepCopy(), unopened.DeepCopy())
	for name, tt := range map[string]struct {
		namespace, reservation string
		refused                bool
	}{
		"the own one": {"alice", "res-aaaaaaaaaa", false},
		"another's":   {"bob", "res-aaaaaaaaaa", true},
		"a reservation whose node no namespace may use yet": {"bob", "res-dddddddddd", false},
		"one without a node": {"bob", "res-eeeeeeeeee", false},
	} {
		t.Run(name, func(t *testing.T) {
			req := podRequest(tt.namespace, `{}`)
			req.Object.Raw = []byte(`{"spec":{"nodeSelector":{"broker.fluidos.eu/reservation":"` + tt.reservation + `"},"containers":[{"name":"a"}]}}`)
			got := (&compliance{cache: c, reader: c}).Handle(t.Context(), req)
			if got.Allowed == tt.refused || tt.refused && !strings.Contains(got.Result.Message, `reservation "res-aaaaaaaaaa" is not for pods of namespace "bob"`) {
				t.Errorf("got %+v", got.AdmissionResponse)
			}
		})
	}
}
