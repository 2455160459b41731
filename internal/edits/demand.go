package edits

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// Demand is an object in which a user asks for capacity: a ResourceRequest in a member cluster, or a Reservation in the
// broker's cluster. One of the fields Request and Reservation is set.
type Demand struct {
	client.Object
	Request     *agentv1alpha1.ResourceRequest
	Reservation *brokerv1alpha1.Reservation
}

// NewDemand returns an empty demand: a Reservation if that is the kind, otherwise a ResourceRequest.
func NewDemand(kind string, key client.ObjectKey) Demand {
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
	if kind == "Reservation" {
		r := &brokerv1alpha1.Reservation{ObjectMeta: meta}
		return Demand{Object: r, Reservation: r}
	}
	r := &agentv1alpha1.ResourceRequest{ObjectMeta: meta}
	return Demand{Object: r, Request: r}
}

// Ref returns the kind, namespace and name of the ResourceRequest or Reservation.
func (d Demand) Ref() view.Ref {
	kind := "ResourceRequest"
	if d.Reservation != nil {
		kind = "Reservation"
	}
	return view.Ref{Kind: kind, Namespace: d.GetNamespace(), Name: d.GetName()}
}

// CheckOwner returns an error for a Reservation that only shows the request of an agent, because the broker reverts
// changes of it.
func (d Demand) CheckOwner() error {
	if d.Reservation != nil && d.Reservation.Labels[brokerv1alpha1.ManagedByLabel] == brokerv1alpha1.ManagedByBroker {
		return fmt.Errorf("reservation %s was asked for in cluster %s: change its ResourceRequest there, because the broker shows what is asked there", d.GetName(), d.Reservation.Spec.RequesterID)
	}
	return nil
}

// DurationField returns a pointer to the field spec.duration.
func (d Demand) DurationField() **metav1.Duration {
	if d.Reservation != nil {
		return &d.Reservation.Spec.Duration
	}
	return &d.Request.Spec.Duration
}

// Extend adds a time to the duration, and returns the sum.
func (d Demand) Extend(longer time.Duration) (time.Duration, error) {
	duration := d.DurationField()
	if *duration == nil {
		return 0, fmt.Errorf("%s has no duration: it is held until it is released, or for the broker's defaultTTL", d.Ref().Short())
	}
	total := (*duration).Duration + longer
	*duration = &metav1.Duration{Duration: total}
	return total, nil
}

// SetRelease asks that the capacity is given back.
func (d Demand) SetRelease() {
	if d.Reservation != nil {
		d.Reservation.Spec.Release = true
		return
	}
	d.Request.Spec.Release = true
}

// Amounts returns the amounts of resources in the spec.
func (d Demand) Amounts() corev1.ResourceList {
	if d.Reservation != nil {
		return corev1.ResourceList(d.Reservation.Spec.RequestedResources)
	}
	return view.DemandOf(d.Request)
}

// SetAmounts sets the amounts of the resources in the list. Other resources of the request stay unchanged.
func (d Demand) SetAmounts(amounts corev1.ResourceList) {
	if r := d.Reservation; r != nil {
		if r.Spec.RequestedResources == nil {
			r.Spec.RequestedResources = brokerv1alpha1.RequestedResources{}
		}
		maps.Copy(r.Spec.RequestedResources, amounts)
		return
	}
	view.SetDemand(d.Request, amounts)
}

// Status returns the phase and message in the status. current is true if the status describes the current generation.
func (d Demand) Status() (phase, message string, current bool) {
	if r := d.Reservation; r != nil {
		return string(r.Status.Phase), r.Status.Message, r.Status.ObservedGeneration == r.Generation
	}
	r := d.Request
	return string(r.Status.Phase), r.Status.Message, r.Status.ObservedGeneration == r.Generation
}
