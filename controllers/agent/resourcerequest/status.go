package resourcerequest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// retryAdvice tells users how to retry a request that failed.
const retryAdvice = "To try again, edit the request, or delete and create it."

// overAdvice tells users how to get capacity after a granted reservation has ended.
const overAdvice = "It has ended: to get capacity again, edit the request, or delete and create it."

// editor writes a request's status. Each method records one fact, and reads nothing but its
// arguments and the status.
type editor struct {
	rr  *agentv1alpha1.ResourceRequest
	now time.Time
	// observed is the generation that the status described before.
	observed int64
}

func (r *Reconciler) editStatus(rr *agentv1alpha1.ResourceRequest) editor {
	e := editor{rr: rr, now: r.options.Clock.Now(), observed: rr.Status.ObservedGeneration}
	rr.Status.ObservedGeneration = rr.Generation
	return e
}

// leaveEditUnobserved keeps observedGeneration behind an edit that the broker has not considered.
func (e editor) leaveEditUnobserved() {
	if e.observed != 0 {
		e.rr.Status.ObservedGeneration = e.observed
	}
}

// setReserved records that the broker holds capacity.
func (e editor) setReserved(a *v1.Reservation) {
	s := &e.rr.Status
	s.Phase = agentv1alpha1.RequestReserved
	s.ReservationName = a.Name
	s.Queue = nil
	if len(a.Candidates) > 0 {
		s.Candidates = wire.ClipCandidates(a.Candidates)
		if meta.IsStatusConditionTrue(s.Conditions, agentv1alpha1.ConditionChanged) {
			dropPrices(s.Candidates)
		}
	}
	if !a.ReservedAt.IsZero() {
		at := metav1.NewTime(a.ReservedAt.Truncate(time.Second))
		s.ReservedAt = &at
	}
	e.setHeldBy(a.Instruction.ProviderID)
}

// dropPrices removes the prices of a decision about other amounts or another duration.
func dropPrices(candidates []brokerv1alpha1.Candidate) {
	for i := range candidates {
		candidates[i].PricePerHour, candidates[i].Currency = "", ""
	}
}

// setHeldBy records which provider holds the capacity.
func (e editor) setHeldBy(provider string) {
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionTrue, agentv1alpha1.ReasonReserved,
		fmt.Sprintf("capacity is held on %q as reservation %q", provider, e.rr.Status.ReservationName))
}

// clearPlacement removes everything that describes a placement, when the request has none.
func (e editor) clearPlacement() {
	s := &e.rr.Status
	s.TargetClusterID, s.TargetClusterEndpoint, s.NodeName = "", "", ""
	s.Granted = nil
	for _, kind := range []string{
		agentv1alpha1.ConditionPeered, agentv1alpha1.ConditionNodeReady, agentv1alpha1.ConditionHealthy, agentv1alpha1.ConditionNetworkConnected,
		agentv1alpha1.ConditionProviderReachable,
	} {
		meta.RemoveStatusCondition(&s.Conditions, kind)
	}
}

// setWaiting records that the broker accepted the request and has no capacity for it yet.
func (e editor) setWaiting(a *v1.Reservation) {
	message := a.Message
	if message == "" {
		message = "the broker is still deciding"
	}
	s := &e.rr.Status
	s.Candidates = wire.ClipCandidates(a.Candidates)
	reason := agentv1alpha1.ReasonPending
	s.Phase = agentv1alpha1.RequestPending
	switch a.Phase {
	case v1.ReservationPhaseQueued:
		s.Phase, reason = agentv1alpha1.RequestQueued, agentv1alpha1.ReasonQueued
		e.setQueued(a.Queue)
	case v1.ReservationPhaseFailed:
		e.leaveEditUnobserved()
		e.setFailed(agentv1alpha1.ReasonNoCandidate, message+"\n"+retryAdvice)
		return
	}
	s.ReservationName = a.Name
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
	e.setReady(metav1.ConditionFalse, reason, message)
}

// setRefused records a refusal, for the reason in the answer.
func (e editor) setRefused(no *fault.Error) {
	e.rr.Status.Candidates = wire.ClipCandidates(no.Candidates)
	if no.Reason == fault.NoCandidate {
		e.setFailed(agentv1alpha1.ReasonNoCandidate, explainRefusal(no))
		return
	}
	reason := agentv1alpha1.ReasonRefused
	if no.Reason == fault.Invalid {
		reason = agentv1alpha1.ReasonInvalid
	}
	e.setFailed(reason, no.Detail+"\n"+retryAdvice)
}

// explainRefusal returns the broker's detail and, one line per cluster, each reason that it does not
// contain.
func explainRefusal(no *fault.Error) string {
	var lines strings.Builder
	lines.WriteString(no.Detail)
	for _, c := range no.Candidates {
		name := c.ClusterID
		if name == "" {
			name = "another cluster"
		}
		why := c.Message
		if why == "" {
			why = c.Reason
		}
		if line := name + ": " + why; !strings.Contains(no.Detail, line) {
			lines.WriteString("\n" + line)
		}
	}
	lines.WriteString("\n" + retryAdvice)
	return lines.String()
}

func (e editor) setFailed(reason, message string) {
	e.rr.Status.Phase = agentv1alpha1.RequestFailed
	e.rr.Status.Queue = nil
	e.clearPlacement()
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
	e.setReady(metav1.ConditionFalse, reason, message)
}

// setUnreachable records that the broker did not decide. What runs keeps running.
func (e editor) setUnreachable(err error) {
	reason, cause := agentv1alpha1.ReasonBrokerUnreachable, "the broker does not answer"
	if no, refused := errors.AsType[*fault.Error](err); refused && no.Reason == fault.TooManyRequests {
		reason, cause, err = agentv1alpha1.ReasonOverBudget, "this cluster exceeds its budget at the broker", no
	}
	s := &e.rr.Status
	if s.ReservationName == "" {
		message := cause + "; the request is repeated until it is accepted: " + err.Error()
		s.Phase = agentv1alpha1.RequestPending
		e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
		e.setReady(metav1.ConditionFalse, reason, message)
		return
	}
	e.setUnsure(reason, cause, err)
}

// setRejected records that the broker rejects this cluster, because it is denied or has no valid
// certificate. The rejection is not a statement about the reservation.
func (e editor) setRejected(no *fault.Error) {
	e.setUnsure(agentv1alpha1.ReasonRefused, "the broker refuses this cluster", no)
}

// setUnsure leaves the reservation as it is and explains why its state could not be updated.
func (e editor) setUnsure(reason, what string, err error) {
	e.leaveEditUnobserved()
	old := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	if old != nil && old.Status == metav1.ConditionTrue {
		e.setCondition(old.Type, old.Status, reason, "capacity is held, but "+what+"; running workloads are not affected: "+err.Error())
	}
}

// setEnded records that the broker has ended the reservation.
func (e editor) setEnded(a *v1.Reservation) {
	if reason, known := endReasons[a.EndReason]; known {
		e.setEnding(reason, "the broker has ended the reservation: "+a.Message)
	}
	reason, message := agentv1alpha1.ReasonFailed, "the broker found no other cluster: "+a.Message
	switch a.EndReason {
	case v1.ReservationEndReasonFailed:
	case v1.ReservationEndReasonPreempted:
		reason, message = agentv1alpha1.ReasonPreempted, "the broker has ended the reservation: "+a.Message
		e.setCondition(agentv1alpha1.ConditionPreempted, metav1.ConditionTrue, reason, a.Message)
	default:
		e.setLost(a.Message)
		return
	}
	e.leaveEditUnobserved()
	e.rr.Status.Phase, e.rr.Status.Queue = agentv1alpha1.RequestReleasing, nil
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
	e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
}

// setLost records that the broker no longer holds the reservation. What was created for it goes
// too.
func (e editor) setLost(why string) {
	e.leaveEditUnobserved()
	message := "the broker has ended the reservation"
	if why != "" {
		message = "the broker has ended the reservation: " + why
	}
	e.rr.Status.Phase = agentv1alpha1.RequestReleasing
	e.rr.Status.Queue = nil
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
	e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
}

// setOver records that nothing is reserved and nothing is left to take down. The reason for the
// end stays readable.
func (e editor) setOver() {
	message := "the reservation is over"
	c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	switch {
	case c != nil && (c.Reason == agentv1alpha1.ReasonFailed || c.Reason == agentv1alpha1.ReasonPreempted):
		e.setFailed(c.Reason, c.Message+"\n"+overAdvice)
		return
	case c != nil && c.Reason == agentv1alpha1.ReasonReleasing:
		message = c.Message
	}
	message += "\n" + overAdvice
	e.rr.Status.Phase = agentv1alpha1.RequestReleased
	e.clearPlacement()
	e.setCondition(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
	e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
}

// mirrorInstructions copies the state of the request's instructions into its status, and lists the
// namespaces that are not offloaded.
func (e editor) mirrorInstructions(all []agentv1alpha1.ReservationInstruction, access inbox.Access) {
	s := &e.rr.Status
	current := currentOf(all)
	s.Granted = nil
	e.setDrained(all)
	switch {
	case isOver(s.Phase):
		return
	case current == nil && s.Phase == agentv1alpha1.RequestReleasing:
		e.setOver()
		return
	case current == nil, s.Phase == agentv1alpha1.RequestQueued && !isStanding(current):
		return
	}
	moved := e.hasMoved(current)
	if s.Phase != agentv1alpha1.RequestReleasing {
		e.setNotice(current)
		e.setExcess(current)
	}
	s.TargetClusterID = current.Spec.TargetClusterID
	s.TargetClusterEndpoint = current.Spec.TargetClusterEndpoint
	s.ExpiresAt = current.Spec.ExpiresAt
	s.NodeName = current.Status.NodeName
	for _, kind := range []string{
		agentv1alpha1.ConditionPeered, agentv1alpha1.ConditionNodeReady,
		agentv1alpha1.ConditionOffloading, agentv1alpha1.ConditionPeeringSkipped,
	} {
		if c := meta.FindStatusCondition(current.Status.Conditions, kind); c != nil {
			e.setCondition(c.Type, c.Status, c.Reason, c.Message)
		}
	}
	e.copyCondition(current, agentv1alpha1.ConditionHealthy)
	e.copyCondition(current, agentv1alpha1.ConditionNetworkConnected)
	e.setReachable(all)
	e.copyEnding(all, current, moved)
	if c := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReserved); c != nil && c.Reason == agentv1alpha1.ReasonReserved {
		e.setHeldBy(s.TargetClusterID)
	}
	if why := explainAccess(access); why != "" {
		e.setCondition(agentv1alpha1.ConditionOffloading, metav1.ConditionFalse, agentv1alpha1.ReasonNamespaceNotOpted, why)
	}
	e.derivePhase(current)
	e.setGranted(current)
}

// hasMoved reports whether the current placement is another one than the status shows.
func (e editor) hasMoved(current *agentv1alpha1.ReservationInstruction) bool {
	s := &e.rr.Status
	return s.TargetClusterID != "" && s.TargetClusterID != current.Spec.TargetClusterID || s.NodeName != "" && s.NodeName != current.Name
}

// copyCondition copies a condition of the placement while the placement has it, such as its health or
// the state of its network.
func (e editor) copyCondition(current *agentv1alpha1.ReservationInstruction, kind string) {
	if c := meta.FindStatusCondition(current.Status.Conditions, kind); c != nil {
		e.setCondition(c.Type, c.Status, c.Reason, c.Message)
		return
	}
	meta.RemoveStatusCondition(&e.rr.Status.Conditions, kind)
}

// setReachable sets the condition ProviderReachable: False while a provider is silent, and True once
// it has reported again or another provider has taken over. A request whose providers were never
// silent does not get the condition.
func (e editor) setReachable(all []agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionProviderReachable
	target, lost, left := e.rr.Status.TargetClusterID, findLost(all, true), findLost(all, false)
	switch {
	case lost != nil:
		reason, then := e.describeLoss(otherStanding(all, lost))
		e.setCondition(kind, metav1.ConditionFalse, reason, fmt.Sprintf("%q has been silent since %s; its capacity stays reserved, and %s",
			lost.Spec.TargetClusterID, lost.Spec.ProviderSilentSince.UTC().Format(time.RFC3339), then))
	case !meta.IsStatusConditionFalse(e.rr.Status.Conditions, kind):
	case left != nil && left.Spec.TargetClusterID != target:
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q has taken over from %q, which is silent", target, left.Spec.TargetClusterID))
	default:
		e.setCondition(kind, metav1.ConditionTrue, agentv1alpha1.ReasonProviderBack, fmt.Sprintf("%q has reported again", target))
	}
}

// describeLoss returns what happens to a request whose provider is lost. next is the instruction
// that takes over, nil if there is none.
func (e editor) describeLoss(next *agentv1alpha1.ReservationInstruction) (reason, then string) {
	switch {
	case next != nil:
		return agentv1alpha1.ReasonMigrating, fmt.Sprintf("%q takes over once its virtual node is Ready", next.Spec.TargetClusterID)
	case e.rr.Spec.Healing == brokerv1alpha1.HealingWait:
		return agentv1alpha1.ReasonProviderSilent, "the request waits for it until it returns, expires or is deleted"
	default:
		return agentv1alpha1.ReasonProviderSilent, "the request goes to another cluster as soon as one has room"
	}
}

// findLost returns the oldest instruction with a silent provider, among the standing ones or
// among the others; nil if there is none.
func findLost(all []agentv1alpha1.ReservationInstruction, standing bool) *agentv1alpha1.ReservationInstruction {
	var oldest *agentv1alpha1.ReservationInstruction
	for i := range all {
		next := &all[i]
		if next.Spec.ProviderSilentSince != nil && isStanding(next) == standing && (oldest == nil || next.Spec.Placement < oldest.Spec.Placement) {
			oldest = next
		}
	}
	return oldest
}

// otherStanding returns another standing instruction, nil if there is none.
func otherStanding(all []agentv1alpha1.ReservationInstruction, one *agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	for i := range all {
		if next := &all[i]; isStanding(next) && next.Name != one.Name {
			return next
		}
	}
	return nil
}

// derivePhase alone decides the phase of a request with a reservation.
func (e editor) derivePhase(current *agentv1alpha1.ReservationInstruction) {
	s := &e.rr.Status
	node := meta.FindStatusCondition(current.Status.Conditions, agentv1alpha1.ConditionNodeReady)
	skipped := meta.FindStatusCondition(current.Status.Conditions, agentv1alpha1.ConditionPeeringSkipped)
	reserved := meta.FindStatusCondition(s.Conditions, agentv1alpha1.ConditionReserved)
	switch {
	case s.Phase == agentv1alpha1.RequestReleasing, reserved == nil || reserved.Status != metav1.ConditionTrue:
		// Ready already shows why.
	case !isStanding(current):
		s.Phase = agentv1alpha1.RequestReserved
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing,
			fmt.Sprintf("the placement on %q is being removed; asking the broker for another one", s.TargetClusterID))
	case node != nil && node.Status == metav1.ConditionTrue:
		s.Phase = agentv1alpha1.RequestActive
		e.setUsable(node)
	case skipped != nil && skipped.Status == metav1.ConditionTrue:
		s.Phase = agentv1alpha1.RequestReserved
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonPeeringSkipped, skipped.Message)
	case node != nil:
		s.Phase = agentv1alpha1.RequestReserved
		e.setReady(metav1.ConditionFalse, node.Reason, node.Message)
	default:
		s.Phase = agentv1alpha1.RequestReserved
		e.setReady(metav1.ConditionFalse, agentv1alpha1.ReasonPeering,
			fmt.Sprintf("capacity is reserved on %q; waiting for its virtual node", s.TargetClusterID))
	}
}

// setUsable sets Ready only if pods of the request's namespaces can also be scheduled to its node.
// Pods created before that stay where they are.
func (e editor) setUsable(node *metav1.Condition) {
	offloading := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionOffloading)
	if offloading != nil && offloading.Status != metav1.ConditionTrue {
		e.setReady(metav1.ConditionFalse, offloading.Reason, node.Message+", but "+offloading.Message)
		return
	}
	e.setReady(metav1.ConditionTrue, agentv1alpha1.ReasonNodeReady, node.Message)
}

// currentOf returns the newest placement that is Ready, else the newest standing one, else the
// newest. Two placements stand while a lost provider is being replaced.
func currentOf(all []agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	var current *agentv1alpha1.ReservationInstruction
	for i := range all {
		next := &all[i]
		if current == nil || rankOf(next) > rankOf(current) ||
			rankOf(next) == rankOf(current) && next.Spec.Placement > current.Spec.Placement {
			current = next
		}
	}
	return current
}

// rankOf ranks a placement by its use to the consumer: Ready, then standing, then ended.
func rankOf(inst *agentv1alpha1.ReservationInstruction) int {
	switch {
	case !isStanding(inst):
		return 0
	case !meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionNodeReady):
		return 1
	default:
		return 2
	}
}

// explainAccess explains why namespaces are not offloaded, or returns "".
func explainAccess(a inbox.Access) string {
	var parts []string
	if len(a.Closed) > 0 {
		parts = append(parts, fmt.Sprintf("not open to requests of other namespaces: %s; to open: kubectl label namespace %s %s=true",
			quoteAll(a.Closed), strings.Join(a.Closed, " "), agentv1alpha1.OffloadLabel))
	}
	if len(a.Missing) > 0 {
		parts = append(parts, fmt.Sprintf("namespaces that do not exist: %s; create them with label %s=true", quoteAll(a.Missing), agentv1alpha1.OffloadLabel))
	}
	if len(a.System) > 0 {
		parts = append(parts, "system namespaces, which cannot be offloaded: "+quoteAll(a.System))
	}
	return strings.Join(parts, "; ")
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return strings.Join(quoted, ", ")
}

func (e editor) setReady(status metav1.ConditionStatus, reason, text string) {
	e.setCondition(agentv1alpha1.ConditionReady, status, reason, text)
}

func (e editor) setCondition(kind string, status metav1.ConditionStatus, reason, text string) {
	meta.SetStatusCondition(&e.rr.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message.Clip(text, message.MaxStatus),
		ObservedGeneration: e.rr.Status.ObservedGeneration, LastTransitionTime: metav1.NewTime(e.now),
	})
}
