package clusteradvertisement

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// TestDeletedObjectIsExplained deletes a ClusterAdvertisement that the broker created. The event says why it is back,
// however soon the object was deleted, and whatever the controller's cache contained meanwhile.
func TestDeletedObjectIsExplained(t *testing.T) {
	w := newWorld(t)
	w.advertise("paris")
	paris := types.NamespacedName{Namespace: "broker", Name: "paris"}
	w.reconcile(paris)
	if got := recorded(w.recorder); got != "" {
		t.Errorf("events of a new object: %q", got)
	}

	w.reconcileUnseen(paris)
	w.deleteShown(paris)
	w.reconcile(paris)
	if got := recorded(w.recorder); !strings.Contains(got, "broker forget paris") {
		t.Errorf("after a deletion before the cache contained the object, events %q", got)
	}
	w.deleteShown(paris)
	w.reconcile(paris)
	if got := recorded(w.recorder); !strings.Contains(got, "broker forget paris") {
		t.Errorf("after another deletion at once, events %q", got)
	}
}

// reconcileUnseen reconciles an object that the controller's cache does not contain yet.
func (w *world) reconcileUnseen(name types.NamespacedName) {
	w.Helper()
	cached := w.reconciler.client
	defer func() { w.reconciler.client = cached }()
	w.reconciler.client = interceptor.NewClient(cached.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
		},
	})
	_, err := w.reconciler.Reconcile(w.Context(), ctrl.Request{NamespacedName: name})
	w.check(err)
}

func (w *world) deleteShown(name types.NamespacedName) {
	w.Helper()
	obj := &brokerv1alpha1.ClusterAdvertisement{}
	w.check(w.Get(w.Context(), name, obj))
	w.check(w.Delete(w.Context(), obj))
}
