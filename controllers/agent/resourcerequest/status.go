package resourcerequest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// retryAdvice tells users how to retry a request that failed.
const retryAdvice = "This is final: delete the request and create it again to ask once more."

// overAdvice tells users how to retry after a granted reservation has ended.
const overAdvice = "It is over: delete the request, and create another to have capacity again."

// editor writes a request's status. Each method records one fact, and reads nothing but its
// arguments and the status.
type editor struct {
	rr  *agentv1alpha1.ResourceRequest
	now time.Time
}

func (r *Reconciler) editor(rr *agentv1alpha1.ResourceRequest) editor {
	rr.Status.ObservedGeneration = rr.Generation
	return editor{rr: rr, now: r.options.Clock.Now()}
}

// reserved records that the broker holds capacity.
func (e editor) reserved(a *v1.Reservation) {
	s := &e.rr.Status
	s.Phase = agentv1alpha1.RequestReserved
	s.ReservationName = a.Name
	s.Queue = nil
	if len(a.Candidates) > 0 {
		s.Candidates = wire.ToCandidates(a.Candidates)
	}
	if !a.ReservedAt.IsZero() {
		at := metav1.NewTime(a.ReservedAt.Truncate(time.Second))
		s.ReservedAt = &at
	}
	e.set(agentv1alpha1.ConditionReserved, metav1.ConditionTrue, agentv1alpha1.ReasonReserved,
		fmt.Sprintf("capacity is held on %q as reservation %q", a.Instruction.ProviderID, a.Name))
}

// waiting records that the broker accepted the request and has no capacity for it yet.
func (e editor) waiting(a *v1.Reservation) {
	message := a.Message
	if message == "" {
		message = "the broker is still deciding"
	}
	s := &e.rr.Status
	s.Candidates = wire.ToCandidates(a.Candidates)
	reason := agentv1alpha1.ReasonPending
	s.Phase = agentv1alpha1.RequestPending
	switch a.Phase {
	case v1.ReservationPhaseQueued:
		s.Phase, reason = agentv1alpha1.RequestQueued, agentv1alpha1.ReasonQueued
		e.queued(a.Queue)
	case v1.ReservationPhaseFailed:
		e.failed(agentv1alpha1.ReasonNoCandidate, message+"\n"+retryAdvice)
		return
	}
	s.ReservationName = a.Name
	e.set(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
	e.ready(metav1.ConditionFalse, reason, message)
}

// refused records a refusal, for the reason in the answer.
func (e editor) refused(no *fault.Error) {
	e.rr.Status.Candidates = wire.ToCandidates(no.Candidates)
	if no.Reason == fault.NoCandidate {
		e.failed(agentv1alpha1.ReasonNoCandidate, explain(no))
		return
	}
	reason := agentv1alpha1.ReasonRefused
	if no.Reason == fault.Invalid {
		reason = agentv1alpha1.ReasonInvalid
	}
	e.failed(reason, no.Detail+"\n"+retryAdvice)
}

// explain lists, one line per cluster, why each was not chosen.
func explain(no *fault.Error) string {
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
		fmt.Fprintf(&lines, "\n%s: %s", name, why)
	}
	lines.WriteString("\n" + retryAdvice)
	return lines.String()
}

func (e editor) failed(reason, message string) {
	e.rr.Status.Phase = agentv1alpha1.RequestFailed
	e.rr.Status.Queue = nil
	e.set(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
	e.ready(metav1.ConditionFalse, reason, message)
}

// unreachable records that the broker did not decide. What runs keeps running.
func (e editor) unreachable(err error) {
	reason, cause := agentv1alpha1.ReasonBrokerUnreachable, "the broker does not answer"
	if no, refused := errors.AsType[*fault.Error](err); refused && no.Reason == fault.TooManyRequests {
		reason, cause, err = agentv1alpha1.ReasonOverBudget, "this cluster exceeds its budget at the broker", no
	}
	s := &e.rr.Status
	if s.ReservationName == "" {
		message := cause + "; the request is repeated until it is accepted: " + err.Error()
		s.Phase = agentv1alpha1.RequestPending
		e.set(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, reason, message)
		e.ready(metav1.ConditionFalse, reason, message)
		return
	}
	e.unsure(reason, cause, err)
}

// unheard records that the broker rejects this cluster, because it is denied or has no valid
// certificate. The rejection is not a statement about the reservation.
func (e editor) unheard(no *fault.Error) {
	e.unsure(agentv1alpha1.ReasonRefused, "the broker refuses this cluster", no)
}

// unsure leaves the reservation as it is and explains why its state could not be updated.
func (e editor) unsure(reason, what string, err error) {
	old := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	if old != nil && old.Status == metav1.ConditionTrue {
		e.set(old.Type, old.Status, reason, "capacity is held, but "+what+"; what runs keeps running: "+err.Error())
	}
}

// ended records that the broker has ended the reservation.
func (e editor) ended(a *v1.Reservation) {
	if reason, known := endReasons[a.EndReason]; known {
		e.ends(reason, "the broker has ended the reservation: "+a.Message)
	}
	if a.EndReason != v1.ReservationEndReasonFailed {
		e.lost(a.Message)
		if a.EndReason == v1.ReservationEndReasonPreempted {
			e.set(agentv1alpha1.ConditionPreempted, metav1.ConditionTrue, agentv1alpha1.ReasonPreempted, a.Message)
		}
		return
	}
	message := "the broker found no other cluster: " + a.Message
	e.rr.Status.Phase, e.rr.Status.Queue = agentv1alpha1.RequestReleasing, nil
	e.set(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonFailed, message)
	e.ready(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
}

// lost records that the broker no longer holds the reservation. What was created for it goes
// too.
func (e editor) lost(why string) {
	message := "the broker has ended the reservation"
	if why != "" {
		message = "the broker has ended the reservation: " + why
	}
	e.rr.Status.Phase = agentv1alpha1.RequestReleasing
	e.rr.Status.Queue = nil
	e.set(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
	e.ready(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing, message)
}

// over records that nothing is reserved and nothing is left to take down. The reason for the
// end stays readable.
func (e editor) over() {
	message := "the reservation is over"
	c := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionReserved)
	switch {
	case c != nil && c.Reason == agentv1alpha1.ReasonFailed:
		e.failed(agentv1alpha1.ReasonFailed, c.Message+"\n"+overAdvice)
		return
	case c != nil && c.Reason == agentv1alpha1.ReasonReleasing:
		message = c.Message
	}
	message += "\n" + overAdvice
	e.rr.Status.Phase = agentv1alpha1.RequestReleased
	e.set(agentv1alpha1.ConditionReserved, metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
	e.ready(metav1.ConditionFalse, agentv1alpha1.ReasonReleased, message)
}

// mirror shows the state of the reservation in this cluster. closed are the namespaces that did
// not opt in.
func (e editor) mirror(all []agentv1alpha1.ReservationInstruction, closed []string) {
	s := &e.rr.Status
	current := currentOf(all)
	e.drained(all)
	switch {
	case isOver(s.Phase):
		return
	case current == nil && s.Phase == agentv1alpha1.RequestReleasing:
		e.over()
		return
	case current == nil, s.Phase == agentv1alpha1.RequestQueued && !stands(current):
		return
	}
	if s.Phase != agentv1alpha1.RequestReleasing {
		e.notice(current)
		e.excess(current)
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
			e.set(c.Type, c.Status, c.Reason, c.Message)
		}
	}
	e.passing(current, agentv1alpha1.ConditionHealthy)
	e.passing(current, agentv1alpha1.ConditionNetworkConnected)
	e.reachable(all)
	e.ending(all, current)
	if len(closed) > 0 {
		e.set(agentv1alpha1.ConditionOffloading, metav1.ConditionFalse, agentv1alpha1.ReasonNamespaceNotOpted, optIn(closed))
	}
	e.derivePhase(current)
}

// passing copies a condition of the placement while the placement has it, such as its health or
// the state of its network.
func (e editor) passing(current *agentv1alpha1.ReservationInstruction, kind string) {
	if c := meta.FindStatusCondition(current.Status.Conditions, kind); c != nil {
		e.set(c.Type, c.Status, c.Reason, c.Message)
		return
	}
	meta.RemoveStatusCondition(&e.rr.Status.Conditions, kind)
}

// reachable records whether a provider is silent, or was.
func (e editor) reachable(all []agentv1alpha1.ReservationInstruction) {
	const kind = agentv1alpha1.ConditionProviderReachable
	target, lost, left := e.rr.Status.TargetClusterID, lostIn(all, true), lostIn(all, false)
	switch {
	case lost != nil:
		reason, then := e.whileLost(besideOf(all, lost))
		e.set(kind, metav1.ConditionFalse, reason, fmt.Sprintf("the broker has heard nothing of %q since %s; capacity stays held there, and %s",
			lost.Spec.TargetClusterID, lost.Spec.ProviderSilentSince.UTC().Format(time.RFC3339), then))
	case !meta.IsStatusConditionFalse(e.rr.Status.Conditions, kind):
	case left != nil && left.Spec.TargetClusterID != target:
		e.set(kind, metav1.ConditionTrue, agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q has taken over from %q, of which nothing is heard", target, left.Spec.TargetClusterID))
	default:
		e.set(kind, metav1.ConditionTrue, agentv1alpha1.ReasonProviderBack, fmt.Sprintf("%q is heard again", target))
	}
}

// whileLost returns what happens to a request whose provider is lost. next is the instruction
// that takes over, nil if there is none.
func (e editor) whileLost(next *agentv1alpha1.ReservationInstruction) (reason, then string) {
	switch {
	case next != nil:
		return agentv1alpha1.ReasonMigrating, fmt.Sprintf("%q takes over once its virtual node is Ready", next.Spec.TargetClusterID)
	case e.rr.Spec.Healing == brokerv1alpha1.HealingWait:
		return agentv1alpha1.ReasonProviderSilent, "the request waits for it until it returns, expires or is deleted"
	default:
		return agentv1alpha1.ReasonProviderSilent, "the request goes to another cluster as soon as one has room"
	}
}

// lostIn returns the oldest instruction with a silent provider, among the standing ones or
// among the others; nil if there is none.
func lostIn(all []agentv1alpha1.ReservationInstruction, standing bool) *agentv1alpha1.ReservationInstruction {
	var oldest *agentv1alpha1.ReservationInstruction
	for i := range all {
		next := &all[i]
		if next.Spec.ProviderSilentSince != nil && stands(next) == standing && (oldest == nil || next.Spec.Placement < oldest.Spec.Placement) {
			oldest = next
		}
	}
	return oldest
}

// besideOf returns another standing instruction, nil if there is none.
func besideOf(all []agentv1alpha1.ReservationInstruction, one *agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	for i := range all {
		if next := &all[i]; stands(next) && next.Name != one.Name {
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
	case !stands(current):
		s.Phase = agentv1alpha1.RequestReserved
		e.ready(metav1.ConditionFalse, agentv1alpha1.ReasonReleasing,
			fmt.Sprintf("what was reserved on %q is being taken down; asking the broker what comes next", s.TargetClusterID))
	case node != nil && node.Status == metav1.ConditionTrue:
		s.Phase = agentv1alpha1.RequestActive
		e.usable(node)
	case skipped != nil && skipped.Status == metav1.ConditionTrue:
		s.Phase = agentv1alpha1.RequestReserved
		e.ready(metav1.ConditionFalse, agentv1alpha1.ReasonPeeringSkipped, skipped.Message)
	case node != nil:
		s.Phase = agentv1alpha1.RequestReserved
		e.ready(metav1.ConditionFalse, node.Reason, node.Message)
	default:
		s.Phase = agentv1alpha1.RequestReserved
		e.ready(metav1.ConditionFalse, agentv1alpha1.ReasonPeering,
			fmt.Sprintf("capacity is reserved on %q; waiting for its virtual node", s.TargetClusterID))
	}
}

// usable sets Ready only if pods of the request's namespaces can also be scheduled to its node.
// Pods created before that stay where they are.
func (e editor) usable(node *metav1.Condition) {
	offloading := meta.FindStatusCondition(e.rr.Status.Conditions, agentv1alpha1.ConditionOffloading)
	if offloading != nil && offloading.Status != metav1.ConditionTrue {
		e.ready(metav1.ConditionFalse, offloading.Reason, node.Message+", but "+offloading.Message)
		return
	}
	e.ready(metav1.ConditionTrue, agentv1alpha1.ReasonNodeReady, node.Message)
}

// currentOf returns the newest placement that is Ready, else the newest standing one, else the
// newest. Two placements stand while a lost provider is being replaced.
func currentOf(all []agentv1alpha1.ReservationInstruction) *agentv1alpha1.ReservationInstruction {
	var current *agentv1alpha1.ReservationInstruction
	for i := range all {
		next := &all[i]
		if current == nil || worth(next) > worth(current) ||
			worth(next) == worth(current) && next.Spec.Placement > current.Spec.Placement {
			current = next
		}
	}
	return current
}

// worth ranks a placement by its use to the consumer: Ready, then standing, then ended.
func worth(inst *agentv1alpha1.ReservationInstruction) int {
	switch {
	case !stands(inst):
		return 0
	case !meta.IsStatusConditionTrue(inst.Status.Conditions, agentv1alpha1.ConditionNodeReady):
		return 1
	default:
		return 2
	}
}

// optIn explains how to open namespaces to offloading.
func optIn(closed []string) string {
	quoted := make([]string, len(closed))
	for i, name := range closed {
		quoted[i] = fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("namespaces %s are not open to requests from elsewhere, or do not exist: kubectl label namespace %s %s=true",
		strings.Join(quoted, ", "), strings.Join(closed, " "), agentv1alpha1.OffloadLabel)
}

// ready sets the Ready condition, and copies its text to the message for users.
func (e editor) ready(status metav1.ConditionStatus, reason, text string) {
	e.rr.Status.Message = message.Clip(text, message.MaxStatus)
	e.set(agentv1alpha1.ConditionReady, status, reason, text)
}

func (e editor) set(kind string, status metav1.ConditionStatus, reason, text string) {
	meta.SetStatusCondition(&e.rr.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message.Clip(text, message.MaxStatus),
		ObservedGeneration: e.rr.Generation, LastTransitionTime: metav1.NewTime(e.now),
	})
}
