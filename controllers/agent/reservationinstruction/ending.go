package reservationinstruction

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// ending says why a virtual node is removed: reason and message of the condition Ending.
type ending struct {
	reason, message string
}

// describeEnding sets the condition Ending to true if the placement ends soon or is being removed,
// and to false if an announced end was called off. before is the status before this reconcile. The
// condition announces the expiry of a reservation when at most the duration lead is left.
func describeEnding(inst *agentv1alpha1.ReservationInstruction, before *agentv1alpha1.ReservationInstructionStatus, lead time.Duration, now time.Time) {
	old := meta.FindStatusCondition(before.Conditions, agentv1alpha1.ConditionEnding)
	noted := old != nil && old.Status == metav1.ConditionTrue
	e, status := upcomingEnd(inst, lead, now), metav1.ConditionTrue
	if inst.Ended() {
		if noted && (before.Phase == agentv1alpha1.InstructionReleasing || before.Phase == agentv1alpha1.InstructionReleased) {
			return // the reason that was recorded first stays
		}
		if noted && old.Reason != agentv1alpha1.ReasonExpiring {
			e = &ending{old.Reason, "the placement made room"}
		} else {
			e = pastEnd(inst, now)
		}
		e.message += ": " + describeRemoval(inst)
	}
	if e == nil {
		if !noted {
			return
		}
		e, status = &ending{agentv1alpha1.ReasonNoticeWithdrawn, "the placement stays" + expirySuffix(inst)}, metav1.ConditionFalse
	}
	message.SetCondition(&inst.Status.Conditions, agentv1alpha1.ConditionEnding, status, e.reason, e.message, inst.Generation, now)
}

// upcomingEnd returns why a placement that has not ended will end soon, or nil. A reservation
// without a duration does not expire, because it is renewed.
func upcomingEnd(inst *agentv1alpha1.ReservationInstruction, lead time.Duration, now time.Time) *ending {
	spec := &inst.Spec
	switch {
	case spec.Notice != nil:
		return &ending{spec.Notice.Reason, fmt.Sprintf("it ends at %s: %s; %s", formatInstant(spec.Notice.EndsAt), describeRemoval(inst), spec.Notice.Message)}
	case lead > 0 && spec.ExpiresAt != nil && !now.Before(spec.ExpiresAt.Add(-lead)):
		return &ending{agentv1alpha1.ReasonExpiring, fmt.Sprintf("the duration ends at %s: %s; to keep the capacity, %s",
			formatInstant(*spec.ExpiresAt), describeRemoval(inst), howToExtend(spec))}
	}
	return nil
}

// pastEnd returns why a placement is being removed, as far as this cluster knows.
func pastEnd(inst *agentv1alpha1.ReservationInstruction, now time.Time) *ending {
	spec := &inst.Spec
	switch {
	case spec.ExpiresAt != nil && !now.Before(spec.ExpiresAt.Time):
		return &ending{agentv1alpha1.ReasonExpired, "the duration is over"}
	case spec.Reason == agentv1alpha1.ReasonProviderLost:
		return &ending{agentv1alpha1.ReasonMigrated, fmt.Sprintf("%q is silent, and another provider has taken over", spec.TargetClusterID)}
	case spec.Reason == agentv1alpha1.ReasonNodeNotReady:
		return &ending{agentv1alpha1.ReasonMigrated, fmt.Sprintf("the node on %q was not Ready, and another provider has taken over", spec.TargetClusterID)}
	case spec.Reason == agentv1alpha1.ReasonProviderForgotten:
		return &ending{spec.Reason, fmt.Sprintf("%q was removed from the broker", spec.TargetClusterID)}
	case spec.Reason != "":
		return &ending{agentv1alpha1.ReasonReleased, fmt.Sprintf("the broker gave up the placement on %q (%s)", spec.TargetClusterID, spec.Reason)}
	}
	return &ending{agentv1alpha1.ReasonReleased, "the placement was released"}
}

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

// untilNotice returns how long to wait before the condition Ending announces that the reservation
// expires. It returns the constant never if there is nothing to wait for: the announcement is
// already due, or the reservation has no duration or has ended.
func untilNotice(inst *agentv1alpha1.ReservationInstruction, lead time.Duration, now time.Time) time.Duration {
	if lead <= 0 || inst.Spec.ExpiresAt == nil || inst.Ended() {
		return never
	}
	return max(inst.Spec.ExpiresAt.Add(-lead).Sub(now), never)
}
