package agent

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestNamespaceMapsOfPeersAreMended(t *testing.T) {
	const replica = `{"apiVersion":"offloading.liqo.io/v1beta1","kind":"NamespaceMap","metadata":{"name":"paris","labels":{"liqo.io/originID":"rome","liqo.io/remote-cluster-id":"rome"}}}`
	cases := map[string]struct {
		groups []string
		object string
		want   []string
		denied bool
	}{
		"a peer's object loses only this label": {
			groups: []string{"liqo.io", "system:authenticated"}, object: replica,
			want: []string{"remove /metadata/labels/liqo.io~1remote-cluster-id"},
		},
		"a peer's object in another peer's name too": {
			groups: []string{"liqo.io"},
			object: `{"apiVersion":"offloading.liqo.io/v1beta1","kind":"NamespaceMap","metadata":{"labels":{"a":"b","liqo.io/remote-cluster-id":"oslo"}}}`,
			want:   []string{"remove /metadata/labels/liqo.io~1remote-cluster-id"},
		},
		"an object without the label stays unchanged": {
			groups: []string{"liqo.io"}, object: `{"apiVersion":"offloading.liqo.io/v1beta1","kind":"NamespaceMap","metadata":{"name":"paris"}}`,
		},
		"this cluster's own object stays unchanged": {groups: []string{"system:serviceaccounts:liqo"}, object: replica},
		"invalid JSON is refused": {
			groups: []string{"liqo.io"}, object: `[]`, denied: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := mendNamespaceMap(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UserInfo: authenticationv1.UserInfo{Username: "rome", Groups: tc.groups},
				Object:   runtime.RawExtension{Raw: []byte(tc.object)},
			}})
			if got.Allowed == tc.denied {
				t.Fatalf("allowed: %t, %+v", got.Allowed, got.Result)
			}
			var patches []string
			for _, p := range got.Patches {
				patches = append(patches, p.Operation+" "+p.Path)
			}
			if diff := cmp.Diff(tc.want, patches); diff != "" {
				t.Errorf("patches (-want +got):\n%s", diff)
			}
		})
	}
}
