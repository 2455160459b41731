package wire

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxRemaining bounds a remaining time from the network to a century, far below the limit of
// time.Duration.
const maxRemaining = 100 * 365 * 24 * time.Hour

// ExpiresAt converts the time that remained when a message was received to a time of the local
// clock, in whole seconds; nil stays nil.
func ExpiresAt(remainingSeconds *float64, received time.Time) *metav1.Time {
	if remainingSeconds == nil {
		return nil
	}
	remaining := maxRemaining
	if *remainingSeconds < maxRemaining.Seconds() {
		remaining = max(0, time.Duration(*remainingSeconds*float64(time.Second)))
	}
	return &metav1.Time{Time: received.Add(remaining).Round(time.Second)}
}

// silentSince converts the seconds of silence before a message to the local time at which the
// silence began; nil stays nil.
func silentSince(seconds *float64, received time.Time) *metav1.Time {
	if seconds == nil {
		return nil
	}
	silent := time.Duration(min(max(*seconds, 0), maxRemaining.Seconds()) * float64(time.Second))
	return &metav1.Time{Time: received.Add(-silent).Round(time.Second)}
}

// ToReservationInstruction converts a consumer's instruction to the spec of a
// ReservationInstruction. The caller sets namespaces and requestRef.
func ToReservationInstruction(in *v1.Instruction, received time.Time) (agentv1alpha1.ReservationInstructionSpec, error) {
	resources, err := instructionResources(in)
	if err != nil {
		return agentv1alpha1.ReservationInstructionSpec{}, err
	}
	return agentv1alpha1.ReservationInstructionSpec{
		ReservationName:       in.Reservation,
		Placement:             in.Placement,
		TargetClusterID:       in.ProviderID,
		TargetClusterEndpoint: in.ProviderEndpoint,
		Resources:             resources,
		ExpiresAt:             ExpiresAt(in.RemainingSeconds, received),
		ConnectBy:             ExpiresAt(in.ConnectSeconds, received),
		ProviderSilentSince:   silentSince(in.ProviderSilentSeconds, received),
		Unattended:            in.Unattended,
		Notice:                noticeOf(in.Notice, received),
		Release:               in.State != v1.InstructionStateHold,
		Excess:                excessOf(in.Excess),
	}, nil
}

// excessOf omits unreadable amounts, so that the consumer still receives the rest.
func excessOf(x *v1.Excess) *agentv1alpha1.Excess {
	if x == nil {
		return nil
	}
	resources, err := ToResourceList(x.Resources)
	if err != nil {
		resources = nil
	}
	return &agentv1alpha1.Excess{Pods: x.Pods, Resources: resources}
}

// maxNotice bounds the message of a notice, as in the schema.
const maxNotice = 1024

func noticeOf(n *v1.Notice, received time.Time) *agentv1alpha1.Notice {
	if n == nil {
		return nil
	}
	return &agentv1alpha1.Notice{
		Reason: string(n.Reason), EndsAt: *ExpiresAt(&n.RemainingSeconds, received), Message: message.Clip(n.Message, maxNotice),
	}
}

// ToQueuePlace converts a place in the queue for a status.
func ToQueuePlace(q *v1.QueuePlace, received time.Time) *brokerv1alpha1.QueuePlace {
	if q == nil {
		return nil
	}
	since := metav1.NewTime(q.Since.Truncate(time.Second))
	return &brokerv1alpha1.QueuePlace{
		Position: q.Position, Since: &since, Until: ExpiresAt(&q.RemainingSeconds, received), Reason: string(q.Reason),
	}
}

// ToProviderInstruction converts a provider's instruction to the spec of a ProviderInstruction.
func ToProviderInstruction(in *v1.Instruction, received time.Time) (agentv1alpha1.ProviderInstructionSpec, error) {
	resources, err := instructionResources(in)
	if err != nil {
		return agentv1alpha1.ProviderInstructionSpec{}, err
	}
	shapes, err := toPodShapes(in.PodShapes)
	if err != nil {
		return agentv1alpha1.ProviderInstructionSpec{}, fmt.Errorf("instruction \"%s-%d\": %w", in.Reservation, in.Placement, err)
	}
	return agentv1alpha1.ProviderInstructionSpec{
		ReservationName:    in.Reservation,
		Placement:          in.Placement,
		RequesterClusterID: in.ConsumerID,
		Resources:          resources,
		PodShapes:          shapes,
		NodeSelector:       ToLabels(in.NodeSelector),
		Tolerations:        in.Tolerations,
		Change:             in.Change,
		ExpiresAt:          ExpiresAt(in.RemainingSeconds, received),
		Release:            in.State != v1.InstructionStateHold,
		Unpeer:             in.State == v1.InstructionStateEnded,
	}, nil
}

func instructionResources(in *v1.Instruction) (corev1.ResourceList, error) {
	amounts, err := ToAmounts(in.Resources)
	if err != nil {
		return nil, fmt.Errorf("instruction \"%s-%d\": %w", in.Reservation, in.Placement, err)
	}
	return amounts.ToResourceList(), nil
}
