package reservation

import (
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

func requestedResources(obj *brokerv1alpha1.Reservation) corev1.ResourceList {
	return corev1.ResourceList(obj.Spec.RequestedResources)
}

// specOf returns the spec with which a user could have requested the same reservation.
func specOf(v *views.Reservation) brokerv1alpha1.ReservationSpec {
	spec := brokerv1alpha1.ReservationSpec{
		RequestedResources: brokerv1alpha1.RequestedResources(v.Wanted().ToResourceList()),
		Priority:           v.Priority, RequesterID: v.Requester, Tenant: v.Tenant, TargetClusterID: v.Target,
	}
	if v.Requirements != nil {
		spec.Requirements = *v.Requirements.DeepCopy()
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
	if v.Idle != nil {
		spec.Idle = &brokerv1alpha1.Idle{After: metav1.Duration{Duration: v.Idle.After}, Action: brokerv1alpha1.IdleNotify}
		if v.Idle.Release {
			spec.Idle.Action = brokerv1alpha1.IdleRelease
		}
	}
	if v.Wait != 0 {
		spec.QueueTimeout = &metav1.Duration{Duration: v.Wait}
	}
	return spec
}

func statusOf(v *views.Reservation, obj *brokerv1alpha1.Reservation) brokerv1alpha1.ReservationStatus {
	status := brokerv1alpha1.ReservationStatus{
		Phase:                 brokerv1alpha1.ReservationPhase(v.Phase),
		Attempt:               obj.Status.Attempt,
		ReservationName:       v.Name,
		TargetClusterID:       targetOf(v),
		TargetClusterEndpoint: v.Endpoint,
		Granted:               grantedOf(v),
		Cost:                  v.Cost,
		RequestedBy:           ledger.ActorOf(v.By).String(),
		ReservedAt:            views.ToSeconds(v.ReservedAt()),
		Queue:                 queuePlaceOf(v.Place),
		Message:               v.Message,
		ObservedGeneration:    obj.Generation,
		Conditions:            slices.Clone(obj.Status.Conditions),
	}
	if v.Over() {
		status.TargetClusterEndpoint = ""
	}
	if v.History != nil {
		status.ChangedBy, status.EndedBy = ledger.ActorOf(v.ChangedBy).String(), ledger.ActorOf(v.EndedBy).String()
	}
	if v.Duration != 0 && v.Place == nil {
		status.ExpiresAt = views.ToSeconds(v.Until)
	}
	if i := v.IdleNow(); i != nil {
		status.IdleSince = views.ToSeconds(i.Since)
	}
	status.Placements, status.EarlierPlacements = placementsOf(v)
	if v.Explanation != "" {
		status.Rejected = v.Explanation.Rejected()
		status.Candidates = wire.ClipCandidates(v.Explanation.Candidates())
		for i := range status.Candidates {
			// The price is left out to save space, as there may be a hundred thousand Reservations. The score for cost
			// remains.
			status.Candidates[i].DropPrice()
		}
	}
	for _, c := range slices.Concat(conditionsOf(v), preemptedConditions(v, obj.Status.Conditions), recallConditions(v, obj.Status.Conditions), idleConditions(v, obj.Status.Conditions), reachableConditions(v, obj.Status), nodeConditions(v, obj.Status.Conditions)) {
		c.ObservedGeneration = obj.Generation
		meta.SetStatusCondition(&status.Conditions, c)
	}
	if p := v.Serving(); v.Place != nil || p == nil || !v.Stands(p) {
		meta.RemoveStatusCondition(&status.Conditions, brokerv1alpha1.ConditionProviderReachable) // the reservation has no provider
	}
	if c := networkCondition(v, obj.Status.Conditions); c != nil {
		c.ObservedGeneration = obj.Generation
		meta.SetStatusCondition(&status.Conditions, *c)
	} else {
		meta.RemoveStatusCondition(&status.Conditions, brokerv1alpha1.ConditionNetworkConnected)
	}
	if c := changeCondition(v, obj); c != nil {
		c.ObservedGeneration = obj.Generation
		setChange(&status, *c)
	}
	return status
}

// grantedOf returns the capacity that the requester may use now. It returns nil unless the phase is Reserved or Active.
func grantedOf(v *views.Reservation) *brokerv1alpha1.Granted {
	p := v.Serving()
	if p == nil || v.Phase != ledger.Reserved && v.Phase != ledger.Active {
		return nil
	}
	var until time.Time
	if v.Duration != 0 {
		until = v.Until
	}
	if n := v.Notice; n != nil && (until.IsZero() || n.Ends.Before(until)) {
		until = n.Ends
	}
	if c := v.CalledBack(); c != nil && c.Placement == p.Number && (until.IsZero() || c.Ends.Before(until)) {
		until = c.Ends
	}
	return &brokerv1alpha1.Granted{Resources: v.AgreedWith(p).ToResourceList(), Until: views.ToSeconds(until)}
}

// maxPlacements is the largest number of placements that the CRD allows in the status.
const maxPlacements = 32

// placementsOf returns the placements to list, and how many it leaves out. It first leaves out the oldest placements
// that are gone. If there are still too many, it leaves out the oldest of the remaining placements.
func placementsOf(v *views.Reservation) (listed []brokerv1alpha1.Placement, earlier int32) {
	excess := len(v.Placements) - maxPlacements
	for i, p := range v.Placements {
		if excess > 0 && v.PlacementPhases[i] == ledger.Gone {
			excess--
			continue
		}
		listed = append(listed, brokerv1alpha1.Placement{
			Number: p.Number, ClusterID: p.Provider, Reason: p.Withdrawn,
			State: brokerv1alpha1.PlacementState(v.PlacementPhases[i]),
		})
	}
	listed = listed[max(excess, 0):]
	return listed, int32(len(v.Placements) - len(listed))
}

func conditionsOf(v *views.Reservation) []metav1.Condition {
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
	switch v.EndReason {
	case ledger.EndExpired:
		ready.Reason = brokerv1alpha1.ReasonExpired
	case ledger.EndIdle:
		ready.Reason = brokerv1alpha1.ReasonIdle
	}
	unused := metav1.Condition{
		Type: brokerv1alpha1.ConditionNoConsumer, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ReasonUnknownRequester,
		Message: "requesterID " + v.Requester + " is not an enrolled cluster: capacity is reserved, but no cluster peers to use it",
	}
	if v.RequesterHasAgent {
		unused.Status, unused.Reason, unused.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonConnected, "the agent of "+v.Requester+" sets up the virtual node"
	}
	return []metav1.Condition{ready, held, acknowledgementOf(v), unused}
}

// targetOf returns the provider to show: the newest provider whose virtual node is Ready, or if there is none, the
// newest provider. It returns "" if the reservation has ended.
func targetOf(v *views.Reservation) string {
	if v.Over() {
		return ""
	}
	if p := v.Serving(); p != nil && v.Provider != "" {
		return p.Provider
	}
	return v.Provider
}

// reachableConditions returns the condition ProviderReachable if the provider's agent is silent, or was silent and has
// reported again. It returns nothing for other reservations.
func reachableConditions(v *views.Reservation, before brokerv1alpha1.ReservationStatus) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionProviderReachable}
	newest := v.Current()
	switch {
	case !v.LostSince.IsZero():
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonProviderSilent
		c.Message = agentOf + v.Lost + silentSince + v.LostSince.Format(time.RFC3339) + "; its capacity stays reserved, and "
		switch {
		case v.Beside(newest) != nil:
			c.Reason = brokerv1alpha1.ReasonMigrating
			c.Message += newest.Provider + " takes over once its virtual node is Ready"
		case v.Patient || v.Target != "":
			c.Message += "the reservation waits until the provider returns, or until it expires or is released"
		default:
			c.Message += "the reservation moves to another cluster as soon as one has room, for which the broker looks every 30s"
		}
	case !meta.IsStatusConditionFalse(before.Conditions, c.Type):
		return nil
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, brokerv1alpha1.ReasonProviderBack, agentOf+targetOf(v)+" has reported again"
		if silent := silentBefore(before); silent != "" && silent != targetOf(v) {
			c.Reason, c.Message = brokerv1alpha1.ReasonMigrated, targetOf(v)+" has taken over from "+silent+", "+whyLeft(v, silent)
		}
	}
	return []metav1.Condition{c}
}

// nodeConditions returns the condition NodeReady if the virtual node is no longer Ready, or is Ready again after that,
// or if another placement takes over after that. It returns nothing for other reservations.
func nodeConditions(v *views.Reservation, before []metav1.Condition) []metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionNodeReady}
	newest := v.Current()
	switch {
	case !v.UnreadySince.IsZero():
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonNodeNotReady
		c.Message = "the virtual node on " + v.Serving().Provider + " has not been Ready since " + v.UnreadySince.UTC().Format(time.RFC3339) + "; "
		if v.Patient || v.Target != "" {
			c.Message += "the reservation waits until the node is Ready, or until it expires or is released"
		} else {
			c.Message += "after " + v.MoveAt.UTC().Format(time.RFC3339) + " the reservation moves to another cluster with room"
		}
	case v.Phase == ledger.Active && meta.IsStatusConditionFalse(before, c.Type):
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, brokerv1alpha1.ReasonNodeReady, "the virtual node on "+targetOf(v)+" is Ready"
	case newest != nil && v.Stands(newest) && meta.IsStatusConditionFalse(before, c.Type):
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonMigrating, newest.Provider+" takes over once its virtual node is Ready"
	default:
		return nil
	}
	return []metav1.Condition{c}
}

// networkCondition returns the condition NetworkConnected if the virtual node waits only for the network, or waited
// only for the network before it became Ready. It returns nil for other reservations, and once the broker has given
// up the placement that waited.
func networkCondition(v *views.Reservation, before []metav1.Condition) *metav1.Condition {
	c := &metav1.Condition{Type: brokerv1alpha1.ConditionNetworkConnected}
	switch {
	case !v.ConnectBy.IsZero():
		c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonNetworkPending
		c.Message = "the network between " + v.Requester + " and " + v.Serving().Provider + " is being set up; after " + v.ConnectBy.UTC().Format(time.RFC3339) + " the next provider is tried"
	case v.Phase != ledger.Active || meta.FindStatusCondition(before, c.Type) == nil:
		return nil
	default:
		c.Status, c.Reason = metav1.ConditionTrue, brokerv1alpha1.ReasonNetworkConnected
		c.Message = "the network between " + v.Requester + " and " + targetOf(v) + " was connected in time"
	}
	return c
}

// agentOf and silentSince surround the provider's name in the message about its silence.
const agentOf, silentSince = "the agent of ", " has been silent since "

// silentBefore returns the provider that the condition ProviderReachable named as silent, "" if it named none.
func silentBefore(before brokerv1alpha1.ReservationStatus) string {
	c := meta.FindStatusCondition(before.Conditions, brokerv1alpha1.ConditionProviderReachable)
	if c == nil {
		return ""
	}
	rest, ok := strings.CutPrefix(c.Message, agentOf)
	provider, _, found := strings.Cut(rest, silentSince)
	if !ok || !found {
		return ""
	}
	return provider
}

// whyLeft returns the text that explains why the reservation left a silent provider. The reason need not be the
// silence.
func whyLeft(v *views.Reservation, silent string) string {
	if slices.ContainsFunc(v.Placements, func(p ledger.Placement) bool { return p.Provider == silent && p.Withdrawn == ledger.Forgotten }) {
		return "which was removed from the broker"
	}
	return "which was silent"
}

func acknowledgementOf(v *views.Reservation) metav1.Condition {
	c := metav1.Condition{Type: brokerv1alpha1.ConditionAcknowledged}
	p := v.Serving()
	switch {
	case p == nil, v.Place != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, string(v.Phase), "no provider is assigned"
	case !v.ProviderHasAgent:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, brokerv1alpha1.ReasonNoAgent, p.Provider+" has no agent to acknowledge"
	case v.ProvisioningOf(p) != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonProvisioning, v.Message
	case p.AcknowledgedAt.IsZero():
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, brokerv1alpha1.ReasonAwaitingProvider, "waiting for the agent of "+p.Provider
	default:
		c.Status, c.Reason, c.Message = metav1.ConditionTrue, brokerv1alpha1.ReasonAcknowledged, p.Provider+" reserves the capacity"
	}
	return c
}

func refusalOf(cause error, obj *brokerv1alpha1.Reservation) brokerv1alpha1.ReservationStatus {
	status := brokerv1alpha1.ReservationStatus{
		Phase:              brokerv1alpha1.ReservationFailed,
		Attempt:            obj.Status.Attempt,
		Message:            cause.Error(),
		ObservedGeneration: obj.Generation,
		Conditions:         slices.Clone(obj.Status.Conditions),
	}
	if fault.ReasonOf(cause) == fault.Released {
		status.Phase = brokerv1alpha1.ReservationReleased
	}
	if f, ok := errors.AsType[*fault.Error](cause); ok {
		status.Candidates, status.Rejected = wire.ClipCandidates(f.Candidates), f.Rejected
	}
	setUnreserved(&status, string(fault.ReasonOf(cause)))
	return status
}

// setUnreserved sets the conditions Ready and Reserved of a Reservation without capacity, with the message of its status.
func setUnreserved(status *brokerv1alpha1.ReservationStatus, reason string) {
	for _, kind := range []string{brokerv1alpha1.ConditionReady, brokerv1alpha1.ConditionReserved} {
		meta.SetStatusCondition(&status.Conditions, metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: status.Message, ObservedGeneration: status.ObservedGeneration,
		})
	}
}
