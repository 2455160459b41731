package reservation

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

func resourceList(obj *brokerv1alpha1.Reservation) corev1.ResourceList {
	return corev1.ResourceList(obj.Spec.RequestedResources)
}

// specOf is what a user would have written for a reservation.
func specOf(v *broker.ReservationView) brokerv1alpha1.ReservationSpec {
	spec := brokerv1alpha1.ReservationSpec{
		RequestedResources: brokerv1alpha1.RequestedResources(v.Wanted().ToResourceList()),
		Priority:           v.Priority, RequesterID: v.Requester, Tenant: v.Tenant, TargetClusterID: v.Target,
		Terms: termsOf(v),
	}
	if v.Duration != 0 {
		spec.Duration = &metav1.Duration{Duration: v.Duration}
	}
	if v.Queue {
		spec.QueuePolicy = brokerv1alpha1.QueuePolicyQueue
	}
	if v.Patient {
		spec.Healing = brokerv1alpha1.HealingWait
	}
	if v.Wait != 0 {
		spec.QueueTimeout = &metav1.Duration{Duration: v.Wait}
	}
	return spec
}

func statusOf(v *broker.ReservationView, obj *brokerv1alpha1.Reservation) brokerv1alpha1.ReservationStatus {
	status := brokerv1alpha1.ReservationStatus{
		Phase:                 brokerv1alpha1.ReservationPhase(v.Phase),
		ReservationName:       v.Name,
		TargetClusterID:       targetOf(v),
		TargetClusterEndpoint: v.Endpoint,
		ReservedAt:            seconds(v.ReservedAt()),
		Queue:                 placeOf(v.Place),
		Message:               v.Message,
		ObservedGeneration:    obj.Generation,
		Conditions:            slices.Clone(obj.Status.Conditions),
	}
	if v.Duration != 0 && v.Place == nil {
		status.ExpiresAt = seconds(v.Until)
	}
	for i, p := range v.Placements {
		status.Placements = append(status.Placements, brokerv1alpha1.Placement{
			Number: p.Number, ClusterID: p.Provider, Reason: p.Withdrawn,
			State: brokerv1alpha1.PlacementState(v.PlacementPhases[i]),
		})
	}
	if v.Explanation != "" {
		status.Rejected = v.Explanation.Rejected()
		for _, c := range v.Explanation.Candidates() {
			status.Candidates = append(status.Candidates, brokerv1alpha1.CandidateScore{
				ClusterID: c.ClusterID, Score: c.Score, Criteria: c.Criteria, Reason: c.Reason,
				Message: message.Clip(c.Message, wire.MaxCandidateMessage),
			})
		}
	}
	for _, c := range slices.Concat(conditionsOf(v), preemptionOf(v, obj.Status.Conditions), recallOf(v, obj.Status.Conditions), reachOf(v, obj.Status)) {
		c.ObservedGeneration = obj.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if c := changeOf(v, obj); c != nil {
		c.ObservedGeneration = obj.Generation
		meta.SetStatusCondition(&status.Conditions, *c)
	}
	return status
}

func conditionsOf(v *broker.ReservationView) []metav1.Condition {
	held := metav1.Condition{Type: brokerv1alpha1.ConditionReserved, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonReserved, Message: v.Message}
	ready := metav1.Condition{Type: brokerv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: string(v.Phase), Message: v.Message}
	switch v.Phase {
	case ledger.Active:
		ready.Status = metav1.ConditionTrue
	case ledger.Queued:
		held.Status, held.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonQueued
	case ledger.Released, ledger.Failed:
		held.Status, held.Reason = metav1.ConditionFalse, string(v.Phase)
	}
	if v.EndReason == ledger.EndExpired {
		ready.Reason = brokerv1alpha1.ReasonExpired
	}
	out := []metav1.Condition{ready, held, acknowledgementOf(v)}
	if v.RequesterHasAgent {
		return append(out, metav1.Condition{
			Type: brokerv1alpha1.ConditionNoConsumer, Status: metav1.ConditionFalse,
			Reason: brokerv1alpha1.ReasonConnected, Message: "the agent of " + v.Requester + " carries it out",
		})
	}
	return append(out, metav1.Condition{
		Type: brokerv1alpha1.ConditionNoConsumer, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonUnknownRequester,
		Message: "requesterID " + v.Requester + " is no enrolled cluster: capacity is locked, nobody peers",
	})
}

// targetOf is the newest cluster with a virtual node that is Ready; where none is, the
// newest that was given the reservation.
func targetOf(v *broker.ReservationView) string {
	if p := v.Serving(); p != nil && v.Provider != "" {
		return p.Provider
	}
	return v.Provider
}

// reachOf tells of a provider that is silent, or was.
func reachOf(v *broker.ReservationView, before brokerv1alpha1.ReservationStatus) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionProviderReachable}
	newest := v.Current()
	switch {
	case !v.LostSince.IsZero():
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonProviderSilent
		c.Message = "nothing was heard of the agent of " + v.Lost + " since " + v.LostSince.Format(time.RFC3339) + "; capacity stays held there, and "
		switch {
		case v.Beside(newest) != nil:
			c.Reason = brokerv1alpha1.ReasonMigrating
			c.Message += newest.Provider + " takes over once its virtual node is Ready"
		case v.Patient || v.Target != "":
			c.Message += "the reservation waits for it until it returns, or the reservation expires or is released"
		default:
			c.Message += "the reservation goes to another cluster as soon as one has room"
		}
	case !meta.IsStatusConditionFalse(before.Conditions, c.Type):
		return nil
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, brokerv1alpha1.ReasonProviderBack, targetOf(v)+" is heard again"
		if left := leftSince(v, before); left != "" {
			c.Reason, c.Message = brokerv1alpha1.ReasonMigrated, targetOf(v)+" has taken over from "+left+", of which nothing is heard"
		}
	}
	return []metav1.Condition{c}
}

// leftSince is the provider that was left, since a status was written, for being lost;
// "" if none was.
func leftSince(v *broker.ReservationView, before brokerv1alpha1.ReservationStatus) string {
	for i, p := range v.Placements {
		known := i < len(before.Placements) && before.Placements[i].Reason != ""
		if p.Withdrawn == ledger.ProviderLost && !known {
			return p.Provider
		}
	}
	return ""
}

func acknowledgementOf(v *broker.ReservationView) metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionAcknowledged}
	p := v.Serving()
	switch {
	case p == nil, v.Place != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, string(v.Phase), "no provider is asked"
	case !v.ProviderHasAgent:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, brokerv1alpha1.ReasonNoAgent, "no agent ever connected for "+p.Provider
	case p.AcknowledgedAt.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonAwaitingProvider, "waiting for the agent of "+p.Provider
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, brokerv1alpha1.ReasonAcknowledged, p.Provider+" keeps the capacity"
	}
	return c
}

func refusalOf(cause error, obj *brokerv1alpha1.Reservation) brokerv1alpha1.ReservationStatus {
	status := brokerv1alpha1.ReservationStatus{
		Phase:              brokerv1alpha1.ReservationFailed,
		Message:            cause.Error(),
		ObservedGeneration: obj.Generation,
		Conditions:         slices.Clone(obj.Status.Conditions),
	}
	if fault.ReasonOf(cause) == fault.Released {
		status.Phase = brokerv1alpha1.ReservationReleased
	}
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		status.Candidates, status.Rejected = wire.ToCandidates(f.Candidates), f.Rejected
	}
	for _, kind := range []string{brokerv1alpha1.ConditionReady, brokerv1alpha1.ConditionReserved} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: string(fault.ReasonOf(cause)),
			Message: cause.Error(), ObservedGeneration: obj.Generation,
		})
	}
	return status
}

// seconds cuts a time to what the API keeps, so that an unchanged status compares equal.
// The zero time is none.
func seconds(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.Unix(t.Unix(), 0)
	return &out
}
