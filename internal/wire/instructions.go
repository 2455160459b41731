package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxRemaining is the longest time that is accepted from a message: a century. A larger number, which only a malicious
// broker sends, could overflow a time.Duration, which ends at almost three centuries.
const maxRemaining = 100 * 365 * 24 * time.Hour

// ExpiresAt converts the number of seconds that were left when a message was received to a time
// of the local clock, in whole seconds. It returns nil for nil.
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

// silentSince returns the time of the local clock that was the given number of seconds before a message
// was received, for example when a provider fell silent. It returns nil for nil.
func silentSince(seconds *float64, received time.Time) *metav1.Time {
	if seconds == nil {
		return nil
	}
	silent := time.Duration(min(max(*seconds, 0), maxRemaining.Seconds()) * float64(time.Second))
	return &metav1.Time{Time: received.Add(-silent).Round(time.Second)}
}

// ToReservationInstruction converts a consumer's instruction to the spec of a
// ReservationInstruction. The caller adds requestRef, namespaces and offloading, which the
// instruction does not contain, and the receipt.
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
		ProvisionBy:           ExpiresAt(in.ProvisionSeconds, received),
		Cost:                  in.Cost,
		ProviderSilentSince:   silentSince(in.ProviderSilentSeconds, received),
		MoveAt:                ExpiresAt(in.MoveSeconds, received),
		Reason:                message.Clip(in.Reason, maxEndReason),
		Unattended:            in.Unattended,
		Notice:                noticeOf(in.Notice, received),
		Release:               in.State != v1.InstructionStateHold,
		Excess:                excessOf(in.Excess),
		Idle:                  idleTimeOf(in.Idle, received),
	}, nil
}

// idleTimeOf converts the idle time of a placement in an instruction to times of the local clock.
func idleTimeOf(i *v1.IdleTime, received time.Time) *agentv1alpha1.IdleTime {
	if i == nil {
		return nil
	}
	return &agentv1alpha1.IdleTime{Since: *silentSince(&i.Seconds, received), ReleaseAt: ExpiresAt(i.ReleaseSeconds, received)}
}

// excessOf converts an excess. If its amounts cannot be read it omits them, so that the
// consumer still receives the number of pods.
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

// maxNotice is the maximum length of a notice's message in the schema, and maxEndReason is the
// maximum length of the reason for which a placement ends.
const (
	maxNotice    = 1024
	maxEndReason = 256
)

func noticeOf(n *v1.Notice, received time.Time) *agentv1alpha1.Notice {
	if n == nil {
		return nil
	}
	return &agentv1alpha1.Notice{
		Reason: string(n.Reason), EndsAt: *ExpiresAt(&n.RemainingSeconds, received), Message: message.Clip(n.Message, maxNotice),
	}
}

// ToQueuePlace converts a place in the queue to the type that statuses use.
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

// ExcessMessage returns a message for a consumer whose pods exceed what was granted: how many
// of them the provider evicted, and the remedy. The provider reports an excess before it
// evicts pods, so the first report counts none.
func ExcessMessage(provider string, x *agentv1alpha1.Excess) string {
	beyond := make([]string, 0, len(x.Resources))
	for _, name := range slices.Sorted(maps.Keys(x.Resources)) {
		q := x.Resources[name]
		beyond = append(beyond, fmt.Sprintf("%s of %s", q.String(), name))
	}
	text := fmt.Sprintf("%q evicts pods that exceed what was granted", provider)
	if x.Pods > 0 {
		text = fmt.Sprintf("%q evicted %d pods that exceeded what was granted", provider, x.Pods)
	}
	if len(beyond) > 0 {
		text += " by " + strings.Join(beyond, ", ")
	}
	return text + ": run no more than is granted, or ask for more; after several such reports the broker refuses new requests for a while"
}
