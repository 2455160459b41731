package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestPodsComplyWithMatchingRequests(t *testing.T) {
	now := metav1.Now()
	for name, tc := range map[string]struct {
		change func(*agentv1alpha1.ResourceRequest)
		// namespace of the pod, "team" if empty.
		namespace string
		complies  bool
	}{
		"a request in the pod's namespace":                     {complies: true},
		"a request in another namespace":                       {namespace: "other"},
		"a request of another namespace":                       {func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Namespaces = &[]string{"open"} }, "open", false},
		"a request that names a namespace that did not opt in": {func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Namespaces = &[]string{"other"} }, "other", false},
		"a request with an empty list of namespaces":           {func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Namespaces = &[]string{} }, "", false},
		"a request without offloading":                         {func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Offloading = nil }, "", false},
		"a request with podCompliance None":                    {func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Offloading.PodCompliance = "None" }, "", false},
		"a released request":                                   {func(rr *agentv1alpha1.ResourceRequest) { rr.Spec.Release = true }, "", false},
		"a deleted request":                                    {func(rr *agentv1alpha1.ResourceRequest) { rr.DeletionTimestamp, rr.Finalizers = &now, []string{"a/b"} }, "", false},
		"a request without a node":                             {func(rr *agentv1alpha1.ResourceRequest) { rr.Status.NodeName = "" }, "", false},
		"a request whose node is cordoned":                     {func(rr *agentv1alpha1.ResourceRequest) { rr.Status.NodeName = "res-west-2" }, "", false},
		"a request whose node is ending":                       {func(rr *agentv1alpha1.ResourceRequest) { rr.Status.NodeName = "res-west-3" }, "", false},
		"a request whose node is gone":                         {func(rr *agentv1alpha1.ResourceRequest) { rr.Status.NodeName = "res-west-0" }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			rr := &agentv1alpha1.ResourceRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "west"},
				Spec:       agentv1alpha1.ResourceRequestSpec{Offloading: &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceEnforce}},
				Status:     agentv1alpha1.ResourceRequestStatus{ReservationName: "res-west", NodeName: "res-west-1"},
			}
			if tc.change != nil {
				tc.change(rr)
			}
			if tc.namespace == "" {
				tc.namespace = "team"
			}
			c := clusterWith(t, interceptor.Funcs{}, rr)
			got := (&compliance{cache: c, reader: c, offloaded: true}).Handle(t.Context(), podRequest(tc.namespace,
				`{"requests":{"cpu":"100m","memory":"64Mi"}}`))
			var want []string
			if tc.complies {
				want = []string{
					`add /spec/containers/0/resources/limits map[cpu:100m memory:64Mi]`,
					`add /spec/nodeSelector map[broker.fluidos.eu/reservation:res-west]`,
				}
			}
			var patches []string
			confined := false
			for _, p := range got.Patches {
				if p.Path == "/spec/affinity" {
					confined = true // expected in every case; TestPodsStayOffNodesReservedForOthers tests its content
					continue
				}
				patches = append(patches, fmt.Sprintf("%s %s %v", p.Operation, p.Path, p.Value))
			}
			slices.Sort(patches)
			if diff := cmp.Diff(want, patches); diff != "" || !got.Allowed || !confined {
				t.Errorf("allowed %t, patches (-want +got):\n%s", got.Allowed, diff)
			}
			refused := (&compliance{cache: c, reader: c, offloaded: true}).Handle(t.Context(), podRequest(tc.namespace, `{}`))
			if refused.Allowed == tc.complies || tc.complies && !strings.Contains(refused.Result.Message, "LimitRange") {
				t.Errorf("a pod that requests nothing: %+v", refused.AdmissionResponse)
			}
		})
	}
}

func TestFailedLookupDoesNotBlockThePod(t *testing.T) {
	c := clusterWith(t, interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("the API server is away")
	}})
	got := (&compliance{cache: c, reader: c, offloaded: true}).Handle(t.Context(), podRequest("team", `{}`))
	if !got.Allowed || len(got.Patches) != 1 || got.Patches[0].Path != "/spec/affinity" || len(got.Warnings) != 1 {
		t.Errorf("got %+v, want it let in, kept off others' nodes, with a warning", got)
	}
}

func clusterWith(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, errors.Join(agentv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	cordoned, ending := virtualNode("", "res-west", "paris").Node, virtualNode("", "res-west", "paris").Node
	cordoned.Name, cordoned.Spec.Unschedulable = "res-west-2", true
	ending.Name, ending.Spec.Taints = "res-west-3", []corev1.Taint{{Key: agentv1alpha1.EndingTaint, Effect: corev1.TaintEffectNoSchedule}}
	objects = append(objects, virtualNode("", "res-west", "paris").Node, cordoned, ending,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "open", Labels: map[string]string{agentv1alpha1.OffloadLabel: "true"}}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
}

// podRequest returns a request as the API server sends it, with a field that the agent's types
// do not know.
func podRequest(namespace, resources string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Namespace: namespace, Operation: admissionv1.Create,
		Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Pod","metadata":{"generateName":"a-"},"spec":{"mood":"new","containers":[{"name":"a","mood":"new","resources":` + resources + `}]}}`)},
	}}
}
