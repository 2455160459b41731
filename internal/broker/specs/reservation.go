package specs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// ReadRequest returns the request in a Reservation that a user created in the
// broker's cluster.
func ReadRequest(obj *brokerv1alpha1.Reservation) (requests.Request, error) {
	amounts, err := quantity.FromResourceList(corev1.ResourceList(obj.Spec.RequestedResources))
	if err != nil {
		return requests.Request{}, fmt.Errorf("requestedResources: %w", err)
	}
	demands, err := requirements.Read(&obj.Spec.Requirements)
	if err != nil {
		return requests.Request{}, err
	}
	q := ledger.Request{
		Key:       obj.AttemptKey(),
		Requester: obj.Spec.RequesterID, Tenant: obj.Spec.Tenant, Priority: obj.Spec.Priority,
		Amounts: amounts, Target: obj.Spec.TargetClusterID,
		Queue:        obj.Spec.QueuePolicy == brokerv1alpha1.QueuePolicyQueue,
		Patient:      obj.Spec.Healing == brokerv1alpha1.HealingWait,
		Object:       &ledger.ObjectRef{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)},
		Requirements: requirements.OrNil(demands),
	}
	if obj.Spec.Idle != nil {
		q.Idle = readIdle(obj.Spec.Idle)
	}
	if obj.Spec.Duration != nil {
		q.Duration = obj.Spec.Duration.Duration
	}
	if obj.Spec.QueueTimeout != nil {
		q.Wait = obj.Spec.QueueTimeout.Duration
	}
	out := requests.Request{Request: q}
	if author := actor.Author(obj); author != "" {
		out.By = ledger.Administrator(actor.Clean(author))
	}
	return out, nil
}

// readIdle returns the idle policy in the spec. A time below requests.ShortestIdle is raised to it.
func readIdle(idle *brokerv1alpha1.Idle) *ledger.IdlePolicy {
	return &ledger.IdlePolicy{After: max(idle.After.Duration, requests.ShortestIdle), Release: idle.Action == brokerv1alpha1.IdleRelease}
}
