package checkup

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestLeaseShowsWhetherALeaderRenewsIt(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	key := client.ObjectKey{Namespace: "ns", Name: "broker"}
	lease := func(holder string, silent time.Duration) *coordinationv1.Lease {
		renewed, acquired := metav1.NewMicroTime(now.Add(-silent)), metav1.NewMicroTime(now.Add(-time.Hour))
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name},
			Spec: coordinationv1.LeaseSpec{
				HolderIdentity: &holder, LeaseDurationSeconds: new(int32(8)), AcquireTime: &acquired, RenewTime: &renewed,
			},
		}
	}
	for name, tc := range map[string]struct {
		lease   *coordinationv1.Lease
		refused error
		level   Level
		says    string
	}{
		"none":                 {level: Skipped, says: "there is no lease ns/broker: it runs alone"},
		"renewed":              {lease: lease("broker-a", 2*time.Second), level: OK, says: "broker-a leads since 2026-03-01T11:00:00Z"},
		"about to be taken":    {lease: lease("broker-a", 18*time.Second), level: OK, says: "broker-a leads"},
		"not renewed":          {lease: lease("broker-a", 96*time.Second), level: Failed, says: "broker-a has not renewed lease ns/broker since 2026-03-01T11:58:24Z, 1m36s ago"},
		"released just now":    {lease: lease("", time.Second), level: Warning, says: "was released at 2026-03-01T11:59:59Z"},
		"released and left":    {lease: lease("", time.Minute), level: Failed, says: "no broker leads"},
		"never held":           {lease: &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "broker"}}, level: Failed, says: "no broker has ever held"},
		"that may not be read": {refused: apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "broker", errors.New("no")), level: Skipped, says: "lacks the permission"},
		"that cannot be read":  {refused: errors.New("connection refused"), level: Failed, says: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			runtest.Check(t, coordinationv1.AddToScheme(scheme))
			builder := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
					if tc.refused != nil {
						return tc.refused
					}
					return c.Get(ctx, key, obj, opts...)
				},
			})
			if tc.lease != nil {
				builder = builder.WithObjects(tc.lease)
			}
			got := Lease{ObjectKey: key, Process: "broker", Now: func() time.Time { return now }}.Check(t.Context(), builder.Build(), "it runs alone")
			if got.Level != tc.level || !strings.Contains(got.Message, tc.says) {
				t.Errorf("got %+v, want %s and %q", got, tc.level, tc.says)
			}
		})
	}
}
