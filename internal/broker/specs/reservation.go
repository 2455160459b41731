package specs

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// ReadRequest returns the request in a Reservation that a user created.
func ReadRequest(obj *brokerv1alpha1.Reservation) (broker.Request, error) {
	amounts, err := quantity.FromResourceList(corev1.ResourceList(obj.Spec.RequestedResources))
	if err != nil {
		return broker.Request{}, fmt.Errorf("requestedResources: %w", err)
	}
	q := broker.Request{
		Requester: obj.Spec.RequesterID, Tenant: obj.Spec.Tenant, Priority: obj.Spec.Priority,
		Amounts: amounts, Target: obj.Spec.TargetClusterID,
		Object: &ledger.ObjectRef{Namespace: obj.Namespace, Name: obj.Name, UID: string(obj.UID)},
	}
	if q.Terms, err = ReadTerms(&obj.Spec); err != nil {
		return broker.Request{}, err
	}
	if obj.Spec.Duration != nil {
		q.Duration = obj.Spec.Duration.Duration
	}
	q.Queue = obj.Spec.QueuePolicy == brokerv1alpha1.QueuePolicyQueue
	q.Patient = obj.Spec.Healing == brokerv1alpha1.HealingWait
	if obj.Spec.QueueTimeout != nil {
		q.Wait = obj.Spec.QueueTimeout.Duration
	}
	return q, nil
}

// ReadTerms returns the constraints, pod shapes and data of a Reservation.
func ReadTerms(spec *brokerv1alpha1.ReservationSpec) (terms.Terms, error) {
	var req v1.ReservationRequest
	wire.FromTermsSpec(&spec.Requirements, &req)
	return wire.ToTerms(&req)
}
