package reservation

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

// Show returns the Reservation that the controller would write for a reservation, or nil if it
// would write none. The object is in namespace, unless a user created it. All conditions get the
// last transition time changed.
func Show(v *views.Reservation, namespace string, changed time.Time) *brokerv1alpha1.Reservation {
	obj := &brokerv1alpha1.Reservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: v.Name, CreationTimestamp: metav1.NewTime(v.CreatedAt.Time())},
		Spec:       specOf(v),
	}
	switch {
	case v.Over() && v.EndReason == ledger.EndReleased:
		return nil // the object was deleted, which released the reservation
	case v.Object != nil:
		obj.Namespace, obj.Name = v.Object.Namespace, v.Object.Name
	case v.Over() || v.Unclaimed:
		return nil
	}
	obj.Status = statusOf(v, obj)
	for i := range obj.Status.Conditions {
		obj.Status.Conditions[i].LastTransitionTime = metav1.NewTime(changed)
	}
	return obj
}
