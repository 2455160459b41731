package reservationinstruction

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// ending is why and when a virtual node is removed.
type ending struct {
	reason, message string
}

// describeEnding derives the condition Ending. before is the previous status.
func describeEnding(inst *agentv1alpha1.ReservationInstruction, before *agentv1alpha1.ReservationInstructionStatus, lead time.Duration, now metav1.Time) {
	old := meta.FindStatusCondition(before.Conditions, agentv1alpha1.ConditionEnding)
	noted := old != nil && old.Status == metav1.ConditionTrue
	condition := metav1.Condition{
		Type: agentv1alpha1.ConditionEnding, Status: metav1.ConditionTrue,
		ObservedGeneration: inst.Generation, LastTransitionTime: now,
	}
	e := upcomingEnd(inst, lead, now.Time)
	if inst.Ended() {
		if noted && (before.Phase == agentv1alpha1.InstructionReleasing || before.Phase == agentv1alpha1.InstructionReleased) {
			return // keep the reason that was recorded first
		}
		if noted && old.Reason != agentv1alpha1.ReasonExpiring {
			e = &ending{old.Reason, "it made room"}
		} else {
			e = pastEnd(inst, now.Time)
		}
		e.message += ": " + describeRemoval(inst)
	}
	switch {
	case e != nil:
		condition.Reason, condition.Message = e.reason, e.message
	case !noted:
		return
	default:
		condition.Status, condition.Reason = metav1.ConditionFalse, agentv1alpha1.ReasonNoticeWithdrawn
		condition.Message = "it stays" + expirySuffix(inst)
	}
	meta.SetStatusCondition(&inst.Status.Conditions, condition)
}

// upcomingEnd returns nil while no end is near. A reservation that is renewed has no end.
func upcomingEnd(inst *agentv1alpha1.ReservationInstruction, lead time.Duration, now time.Time) *ending {
	spec := &inst.Spec
	switch {
	case spec.Notice != nil:
		return &ending{spec.Notice.Reason, fmt.Sprintf("it ends at %s: %s; %s", formatInstant(spec.Notice.EndsAt), describeRemoval(inst), spec.Notice.Message)}
	case lead > 0 && spec.ExpiresAt != nil && !now.Before(spec.ExpiresAt.Add(-lead)):
		return &ending{agentv1alpha1.ReasonExpiring, fmt.Sprintf("its duration is over at %s: %s; to keep it, %s",
			formatInstant(*spec.ExpiresAt), describeRemoval(inst), howToExtend(spec))}
	}
	return nil
}

// pastEnd returns why a placement is taken down, as far as this cluster knows.
func pastEnd(inst *agentv1alpha1.ReservationInstruction, now time.Time) *ending {
	spec := &inst.Spec
	switch {
	case spec.ExpiresAt != nil && !now.Before(spec.ExpiresAt.Time):
		return &ending{agentv1alpha1.ReasonExpired, "its duration is over"}
	case spec.ProviderSilentSince != nil:
		return &ending{agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q is silent", spec.TargetClusterID)}
	}
	return &ending{agentv1alpha1.ReasonReleased, "it was released"}
}

// describeRemoval describes what the end means for users of the reservation.
func describeRemoval(inst *agentv1alpha1.ReservationInstruction) string {
	if inst.Status.NodeName == "" {
		return "its capacity is released"
	}
	return fmt.Sprintf("pods are evicted from node %q before it is removed", inst.Status.NodeName)
}

func howToExtend(spec *agentv1alpha1.ReservationInstructionSpec) string {
	if ref := spec.RequestRef; ref != nil {
		return fmt.Sprintf("raise spec.duration: kubectl edit resourcerequest %s -n %s", ref.Name, ref.Namespace)
	}
	return fmt.Sprintf("raise spec.duration of Reservation %q in the broker's cluster", spec.ReservationName)
}

func expirySuffix(inst *agentv1alpha1.ReservationInstruction) string {
	if inst.Spec.ExpiresAt == nil {
		return ""
	}
	return " until " + formatInstant(*inst.Spec.ExpiresAt)
}

func formatInstant(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

// untilNotice returns when to announce that a reservation expires. It returns never if the
// reservation does not expire, has ended, or the announcement is due already.
func untilNotice(inst *agentv1alpha1.ReservationInstruction, lead time.Duration, now time.Time) time.Duration {
	if lead <= 0 || inst.Spec.ExpiresAt == nil || inst.Ended() {
		return never
	}
	return max(inst.Spec.ExpiresAt.Add(-lead).Sub(now), never)
}
