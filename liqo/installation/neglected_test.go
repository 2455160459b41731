package installation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func TestOldestNeglectedObjectIsFound(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	aged := func(name string, age time.Duration) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-age))}
	}
	csr, done := []byte("csr"), &authv1beta1.AuthParams{}
	tenant := func(age time.Duration, params *authv1beta1.AuthParams) client.Object {
		return &authv1beta1.Tenant{ObjectMeta: aged("t", age), Spec: authv1beta1.TenantSpec{CSR: csr}, Status: authv1beta1.TenantStatus{AuthParams: params}}
	}
	slice := func(age time.Duration, replicated bool, request []byte, params *authv1beta1.AuthParams) client.Object {
		s := &authv1beta1.ResourceSlice{ObjectMeta: aged("s", age), Spec: authv1beta1.ResourceSliceSpec{CSR: request}, Status: authv1beta1.ResourceSliceStatus{AuthParams: params}}
		s.Labels = map[string]string{"liqo.io/replication": "true"}
		if replicated {
			s.Labels = map[string]string{object.ReplicatedLabel: "true"}
		}
		return s
	}
	unlabelled := func() client.Object {
		s := slice(time.Minute, false, nil, nil)
		s.SetLabels(nil)
		return s
	}
	identity := func(secret *corev1.LocalObjectReference) client.Object {
		return &authv1beta1.Identity{ObjectMeta: aged("i", time.Minute), Status: authv1beta1.IdentityStatus{KubeconfigSecretRef: secret}}
	}
	for name, tc := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"nothing":                                             {},
		"everything was processed":                            {objects: []client.Object{tenant(time.Hour, done), slice(time.Hour, true, csr, done), identity(&corev1.LocalObjectReference{Name: "k"})}},
		"a tenant of just now":                                {objects: []client.Object{tenant(29*time.Second, nil)}},
		"a tenant without a certificate":                      {objects: []client.Object{tenant(30*time.Second, nil)}, want: "Tenant ns/t"},
		"an identity without a kubeconfig":                    {objects: []client.Object{identity(nil)}, want: "Identity ns/i"},
		"an own slice without request":                        {objects: []client.Object{slice(time.Minute, false, nil, nil)}, want: "ResourceSlice ns/s"},
		"a slice of a user that Liqo ignores":                 {objects: []client.Object{unlabelled()}},
		"an own slice that waits for the peer":                {objects: []client.Object{slice(time.Minute, false, csr, nil)}},
		"a peer's slice without a certificate":                {objects: []client.Object{slice(time.Minute, true, csr, nil)}},
		"a tenant that is older than a processed one":         {objects: []client.Object{tenant(time.Hour, nil), identity(&corev1.LocalObjectReference{Name: "k"})}},
		"an identity that is younger than a processed tenant": {objects: []client.Object{tenant(time.Hour, done), identity(nil)}, want: "Identity ns/i"},
		"the oldest of two":                                   {objects: []client.Object{tenant(2*time.Minute, nil), slice(time.Minute, false, nil, nil)}, want: "Tenant ns/t"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			runtest.Check(t, object.AddToScheme(scheme))
			found, err := findNeglected(t.Context(), fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).Build(), now)
			runtest.Check(t, err)
			got := ""
			if found != nil {
				got = found.Object
			}
			if got != tc.want {
				t.Errorf("found %q, want %q", got, tc.want)
			}
		})
	}
}
