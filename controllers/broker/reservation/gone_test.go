package reservation

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal/journaltest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// byHand returns a Reservation that a user created.
func byHand(uid types.UID) *brokerv1alpha1.Reservation {
	r := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "by-hand", UID: uid, Finalizers: []string{brokerv1alpha1.ReservationFinalizer},
	}}
	r.Spec.RequesterID = "rome"
	r.Spec.RequestedResources = brokerv1alpha1.RequestedResources{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	return r
}

// A cache may show a deleted object, or miss a new one. Neither may leave capacity locked without an owner, or
// release the capacity of an existing object.
func TestCapacityIsHeldOnlyForExistingObjects(t *testing.T) {
	tests := map[string]struct {
		// cached and there are the UIDs of the object in the cache and in the API server over time; "" for none.
		cached, there []types.UID
		held          []string
	}{
		"an object that exists":          {cached: []types.UID{"first"}, there: []types.UID{"first"}, held: []string{"first"}},
		"an object deleted meanwhile":    {cached: []types.UID{"first", ""}, there: []types.UID{"", ""}},
		"an object created anew":         {cached: []types.UID{"first", "second"}, there: []types.UID{"second", "second"}, held: []string{"second"}},
		"an object missing in the cache": {cached: []types.UID{"first", ""}, there: []types.UID{"first", "first"}, held: []string{"first"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b := lending(t)
			var last ctrl.Result
			for i := range test.cached {
				r := &Reconciler{
					client: holding(t, test.cached[i]), live: holding(t, test.there[i]), broker: b,
					namespace: "broker", recorder: events.NewFakeRecorder(10), clock: clock.RealClock{},
				}
				key := client.ObjectKeyFromObject(byHand(""))
				var err error
				last, err = r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
				runtest.Check(t, err)
			}
			if looks := last.RequeueAfter > 0; looks != (len(test.held) > 0) {
				t.Errorf("requeued: %t, while capacity is held for %v", looks, test.held)
			}
			held := b.HeldFor("default", "by-hand")
			if len(held) != len(test.held) {
				t.Errorf("held for %v, want %v", held, test.held)
			}
			for _, want := range test.held {
				if view, err := b.ObjectReservation(t.Context(), "rome", want); err != nil || view == nil || view.EndReason != "" {
					t.Errorf("nothing is held for %s: %+v, %v", want, view, err)
				}
			}
		})
	}
}

func holding(t *testing.T, uid types.UID) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	runtest.Check(t, brokerv1alpha1.AddToScheme(scheme))
	objects := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&brokerv1alpha1.Reservation{})
	if uid != "" {
		objects.WithObjects(byHand(uid))
	}
	return objects.Build()
}

// lending returns a broker that knows one cluster with capacity.
func lending(t *testing.T) *broker.Broker {
	t.Helper()
	b := broker.New(broker.Options{Store: journaltest.NewServer().Client(), Version: "test", Log: logr.Discard(), Now: time.Now})
	b.SetConfig(t.Context(), settings.Default())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() { stop(); running.Wait() })
	for !b.Serving() {
		time.Sleep(time.Millisecond)
	}
	if _, err := b.PublishAdvertisement(t.Context(), "paris", &v1.Advertisement{
		ClusterID: "paris", Epoch: 1, Sequence: 1,
		Capacity: v1.Amounts{"cpu": "4", "memory": "8Gi"}, Allocatable: v1.Amounts{"cpu": "4", "memory": "8Gi"},
	}); err != nil {
		t.Fatal(err)
	}
	return b
}
