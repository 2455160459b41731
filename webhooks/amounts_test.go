package webhooks

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

func TestWrongAmountsAreRefusedWithRemedy(t *testing.T) {
	object := func(kind, spec string) []byte {
		return []byte(`{"apiVersion":"liqo.io/v1alpha1","kind":"` + kind + `","metadata":{"name":"mine","namespace":"team"},"spec":` + spec + `}`)
	}
	wrong := func(path, value string) string {
		return path + `: Invalid value: "` + value + `": ` + amountRemedy
	}
	for name, tc := range map[string]struct{ kind, before, spec, want string }{
		"amounts with units":                    {"ResourceRequest", "", `{"resources":{"a":"1","b":"500m","c":"4Gi","d":"1e3","e":".5","f":3}}`, ""},
		"gigabytes":                             {"ResourceRequest", "", `{"resources":{"ephemeral-storage":"10GB"}}`, wrong("spec.resources.ephemeral-storage", "10GB")},
		"gigabytes of a pod":                    {"ResourceRequest", "", `{"podShapes":[{"resources":{"cpu":"1"}},{"resources":{"memory":"4GB"}}]}`, wrong("spec.podShapes[1].resources.memory", "4GB")},
		"an exponent that takes minutes":        {"Reservation", "", `{"requestedResources":{"cpu":"1e-2147483647"}}`, wrong("spec.requestedResources.cpu", "1e-2147483647")},
		"a capacity":                            {"ClusterAdvertisement", "", `{"resources":{"capacity":{"cpu":"many"}}}`, wrong("spec.resources.capacity.cpu", "many")},
		"a Quote":                               {"Quote", "", `{"resources":{"cpu":"two"}}`, wrong("spec.resources.cpu", "two")},
		"a Quote with an amount":                {"Quote", "", `{"resources":{"cpu":"2"}}`, ""},
		"a field with a rule of its own":        {"ResourceRequest", "", `{"cpu":"two"}`, ""},
		"a name that is no amount":              {"ResourceRequest", "", `{"constraints":{"regions":["4GB"]}}`, ""},
		"a type that the schema refuses":        {"ResourceRequest", "", `{"resources":[1,{"a":null}]}`, ""},
		"an old mistake that an update repeats": {"ResourceRequest", `{"resources":{"a":"4GB"}}`, `{"resources":{"a":"4GB"}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				Operation: admissionv1.Create, Kind: metav1.GroupVersionKind{Kind: tc.kind}, Object: runtime.RawExtension{Raw: object(tc.kind, tc.spec)},
			}}
			if tc.before != "" {
				req.Operation, req.OldObject.Raw = admissionv1.Update, object(tc.kind, tc.before)
			}
			got := stampAuthor(t.Context(), req)
			said := ""
			if !got.Allowed {
				said = got.Result.Details.Causes[0].Field + ": " + got.Result.Details.Causes[0].Message
			}
			if diff := cmp.Diff(tc.want, said); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
			if stamped := len(got.Patches) > 0; got.Allowed && tc.before == "" && stamped == (tc.kind == "Quote" || tc.kind == "ClusterAdvertisement") {
				text, _ := json.Marshal(got.Patches)
				t.Errorf("stamped by %s", text)
			}
		})
	}
}
