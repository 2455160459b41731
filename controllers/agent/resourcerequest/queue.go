package resourcerequest

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// setQueued also removes the details of an earlier placement from the status.
func (e editor) setQueued(place *v1.QueuePlace) {
	s := &e.rr.Status
	e.clearPlacement()
	s.ReservedAt, s.ExpiresAt = nil, nil
	was := s.Queue
	s.Queue = wire.ToQueuePlace(place, e.now)
	if s.Queue == nil {
		return
	}
	if was != nil {
		s.Queue.Until = inbox.KeepExpiry(was.Until, s.Queue.Until)
	}
	if meta.IsStatusConditionTrue(e.rr.Status.Conditions, agentv1alpha1.ConditionRecalled) {
		e.setCondition(agentv1alpha1.ConditionRecalled, metav1.ConditionTrue, agentv1alpha1.ReasonRecalled,
			"it had to leave its provider; the request waits for another one")
	}
	if place.Reason == v1.QueuePlaceReasonPreempted {
		e.setCondition(agentv1alpha1.ConditionPreempted, metav1.ConditionTrue, agentv1alpha1.ReasonPreempted,
			"a request of a higher priority took its capacity; the request waits for a provider")
	}
}

// firstPlaces is how many places at the front of the queue are kept up to date in the status of
// requests. Places further back may be outdated until the broker is asked again.
const firstPlaces = 16

// refreshPlaces makes the controller ask the broker about the other requests whose status shows the
// same place in the queue as rr now has. Only one request can have this place, so theirs are
// outdated. It does nothing if the place of rr has not changed or is not among the firstPlaces.
func (r *Reconciler) refreshPlaces(ctx context.Context, rr, before *agentv1alpha1.ResourceRequest) error {
	is, was := rr.Status.Queue, before.Status.Queue
	if is == nil || is.Position > firstPlaces || was != nil && was.Position == is.Position {
		return nil
	}
	var list agentv1alpha1.ResourceRequestList
	if err := r.client.List(ctx, &list); err != nil {
		return fmt.Errorf("list resource requests: %w", err)
	}
	for i := range list.Items {
		other := &list.Items[i]
		if place := other.Status.Queue; other.UID != rr.UID && place != nil && place.Position == is.Position {
			r.Look(client.ObjectKeyFromObject(other))
		}
	}
	return nil
}
