package agent

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func encode(t *testing.T, obj any) runtime.RawExtension {
	t.Helper()
	raw, err := json.Marshal(obj)
	runtest.Check(t, err)
	return runtime.RawExtension{Raw: raw}
}

func TestSliceOfAPeerIsChecked(t *testing.T) {
	slice := func(csr string, change ...func(*object.ResourceSlice)) *object.ResourceSlice {
		s := &object.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "res-a-1"}, Spec: object.ResourceSliceSpec{CSR: []byte(csr)}}
		for _, c := range change {
			c(s)
		}
		return s
	}
	deleting := func(s *object.ResourceSlice) { s.DeletionTimestamp = new(metav1.Now()) }
	tests := map[string]struct {
		groups  []string
		before  *object.ResourceSlice
		object  *object.ResourceSlice
		verdict error
		// code is the HTTP status of the refusal; 0 means admitted. asked is true if the
		// webhook needed a verdict.
		code  int32
		asked bool
	}{
		"a valid request is admitted": {object: slice("good"), asked: true},
		"an invalid request is refused with reason Invalid, so that Liqo retries": {object: slice("bad"), verdict: &guard.Refusal{}, code: 422, asked: true},
		"a request that cannot be checked is refused for now":                     {object: slice("good"), verdict: errors.New("no API server"), code: 500, asked: true},
		"an update of other fields is admitted":                                   {before: slice("bad"), object: slice("bad"), verdict: &guard.Refusal{}},
		"an update of the request is checked":                                     {before: slice("good"), object: slice("bad"), verdict: &guard.Refusal{}, code: 422, asked: true},
		"a slice being deleted is admitted":                                       {before: slice("good"), object: slice("bad", deleting), verdict: &guard.Refusal{}},
		"this cluster's own writes are not checked":                               {groups: []string{"system:authenticated"}, object: slice("bad"), verdict: &guard.Refusal{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			asked := false
			s := &signing{slice: func(_ context.Context, consumer string, got *object.ResourceSlice) error {
				asked = true
				if consumer != "rome" || got.Name != "res-a-1" {
					t.Errorf("asked about slice %q of %q", got.Name, consumer)
				}
				return test.verdict
			}}
			req := admissionv1.AdmissionRequest{
				Name: "res-a-1", Operation: admissionv1.Create, Object: encode(t, test.object),
				UserInfo: authenticationv1.UserInfo{Username: "rome", Groups: []string{"liqo.io"}},
			}
			if test.groups != nil {
				req.UserInfo.Groups = test.groups
			}
			if test.before != nil {
				req.Operation, req.OldObject = admissionv1.Update, encode(t, test.before)
			}
			wantCode(t, s.checkSlice(t.Context(), admission.Request{AdmissionRequest: req}), test.code)
			if asked != test.asked {
				t.Errorf("a verdict was asked for: %t", asked)
			}
		})
	}
}

func wantCode(t *testing.T, got admission.Response, code int32) {
	t.Helper()
	if got.Allowed != (code == 0) || !got.Allowed && got.Result.Code != code {
		t.Errorf("allowed: %t, %+v, want code %d", got.Allowed, got.Result, code)
	}
}

func TestRequestsOfLiqoAreChecked(t *testing.T) {
	tests := map[string]struct {
		label   string
		verdict error
		code    int32
	}{
		"a valid request is admitted":                {label: "true"},
		"an invalid request is refused":              {label: "true", verdict: &guard.Refusal{}, code: 422},
		"the label counts with any value":            {label: "false", verdict: &guard.Refusal{}, code: 422},
		"a request without Liqo's label is admitted": {verdict: &guard.Refusal{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &signing{request: func(context.Context, []byte) error { return test.verdict }}
			csr := &certificatesv1.CertificateSigningRequest{}
			if test.label != "" {
				csr.Labels = map[string]string{csrLabel: test.label}
			}
			wantCode(t, s.checkRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: encode(t, csr)}}), test.code)
		})
	}
}

func TestCertificatesOfPeersAreShortLived(t *testing.T) {
	tests := map[string]struct {
		labels map[string]string
		asks   *int32
		want   any
	}{
		"Liqo asks for no lifetime":                    {labels: map[string]string{csrLabel: "true"}, want: json.Number("3600")},
		"a longer lifetime is shortened":               {labels: map[string]string{csrLabel: "true"}, asks: new(int32(7200)), want: json.Number("3600")},
		"a shorter lifetime stays":                     {labels: map[string]string{csrLabel: "true"}, asks: new(int32(600))},
		"requests without Liqo's label stay unchanged": {asks: new(int32(7200))},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &signing{lifetime: time.Hour}
			csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Labels: test.labels}}
			csr.Spec.ExpirationSeconds = test.asks
			got := s.shortenLifetime(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Object: encode(t, csr)}})
			if !got.Allowed {
				t.Fatalf("refused: %+v", got.Result)
			}
			var value any
			for _, p := range got.Patches {
				if p.Path != "/spec/expirationSeconds" {
					t.Errorf("patches %s", p.Path)
				}
				value = p.Value
			}
			if diff := cmp.Diff(test.want, value); diff != "" {
				t.Errorf("expirationSeconds (-want +got):\n%s", diff)
			}
		})
	}
}
