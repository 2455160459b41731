package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
)

func TestCheckMailboxes(t *testing.T) {
	const poll = "/api/v1/instructions?after=x&wait=60"
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	account := func(namespace string) client.Object {
		return &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "agent"}}
	}
	box := func(namespace, path string, age time.Duration, code int32) client.Object {
		return &brokerv1alpha1.ClusterMailbox{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "call", CreationTimestamp: metav1.NewTime(now.Add(-age))},
			Spec:       brokerv1alpha1.ClusterMailboxSpec{Method: "GET", Path: path},
			Status:     brokerv1alpha1.ClusterMailboxStatus{Code: code},
		}
	}
	policy := metav1.ObjectMeta{Name: "broker-mailboxes"}
	guarded := []client.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: policy},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: policy},
	}
	speaking := func(more ...client.Object) []client.Object {
		return append(more, guarded[0], guarded[1], account("r"), account("p"), box("p", poll, time.Minute, 0))
	}
	both := map[string]string{"rome": "r", "paris": "p"}
	for name, tc := range map[string]struct {
		mailboxes map[string]string
		objects   []client.Object
		refused   error
		level     checkup.Level
		says      string
	}{
		"none are answered":               {level: checkup.Skipped, says: "--mailboxes is not given"},
		"two clusters in one":             {mailboxes: map[string]string{"rome": "r", "paris": "r"}, level: checkup.Failed, says: `"r" is given to "paris" and to "rome"`},
		"clusters that poll":              {mailboxes: both, objects: speaking(box("r", poll, time.Second, 0)), level: checkup.OK, says: "2 clusters send requests and get answers: paris, rome"},
		"an answer that was not read yet": {mailboxes: both, objects: speaking(box("r", "/api/v1/ping", time.Hour, 200)), level: checkup.OK, says: "2 clusters"},
		"a cluster that asks nothing":     {mailboxes: both, objects: speaking(), level: checkup.Warning, says: "1 of 2 clusters have no open requests, not even long polls: rome"},
		"a request without an answer": {
			mailboxes: both, objects: speaking(box("r", "/api/v1/ping", 6*time.Second, 0)),
			level: checkup.Failed, says: `cluster "rome" gets no answer: GET /api/v1/ping has waited in ClusterMailbox r/call since 2026-03-01T11:59:54Z`,
		},
		"a request that was made just now": {mailboxes: both, objects: speaking(box("r", "/api/v1/ping", 5*time.Second, 0)), level: checkup.OK, says: "2 clusters"},
		"a poll without an answer": {
			mailboxes: both, objects: speaking(box("r", poll, 66*time.Second, 0)), level: checkup.Failed, says: `cluster "rome" gets no answer`,
		},
		"a cluster without an account": {
			mailboxes: both, objects: append(guarded, account("p")), level: checkup.Failed,
			says: `cluster "rome" has no account: serviceaccounts "agent" not found in namespace "r"`,
		},
		"a namespace without the policy": {
			mailboxes: map[string]string{"paris": "p"}, objects: []client.Object{account("p"), box("p", poll, 0, 0), guarded[0]},
			level: checkup.Warning, says: `admission policy "broker-mailboxes" or its binding is missing`,
		},
		"without the right to look": {
			mailboxes: both, objects: speaking(), refused: apierrors.NewForbidden(schema.GroupResource{Resource: "clustermailboxes"}, "", errors.New("no")),
			level: checkup.Skipped, says: "lacks the permission",
		},
		"an API server that is away": {mailboxes: both, objects: speaking(), refused: errors.New("connection refused"), level: checkup.Failed, says: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme, err := newScheme()
			if err != nil {
				t.Fatal(err)
			}
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.objects...).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					if tc.refused != nil {
						return tc.refused
					}
					return c.List(ctx, list, opts...)
				},
			}).Build()
			o := &checkOptions{options: &options{mailboxes: tc.mailboxes}, name: "broker"}
			if got := o.checkMailboxes(t.Context(), c, now); got.Level != tc.level || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got %+v, want %s and %q", got, tc.level, tc.says)
			}
		})
	}
}
