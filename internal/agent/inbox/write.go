package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

// ErrUnusable marks an instruction that the agent can never carry out: it is malformed,
// contradicts an existing object, or violates the schema.
var ErrUnusable = errors.New("instruction cannot be used")

func wrapUnusable(err error) error { return fmt.Errorf("%w: %w", ErrUnusable, err) }

// expiryTolerance is the largest difference at which two expiries count as equal. The broker sends
// remaining times, so the expiries computed from two answers differ slightly.
const expiryTolerance = 2 * time.Second

func metaOf(namespace, name, reservation string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name,
		Labels: map[string]string{
			agentv1alpha1.ManagedByLabel:   agentv1alpha1.ManagedByValue,
			agentv1alpha1.ReservationLabel: reservation,
		},
	}
}

// KeepExpiry returns old if the two differ by at most expiryTolerance, otherwise now.
func KeepExpiry(old, now *metav1.Time) *metav1.Time {
	if old != nil && now != nil && now.Sub(old.Time).Abs() <= expiryTolerance {
		return old
	}
	return now
}

// patchSpec fails if another writer has changed the object, but not if the object was deleted.
func patchSpec(ctx context.Context, c client.Client, obj, before client.Object, spec, old any) error {
	if equality.Semantic.DeepEqual(spec, old) {
		return nil
	}
	if err := c.Patch(ctx, obj, patch.IfUnchanged(before)); client.IgnoreNotFound(err) != nil {
		return wrapWriteError(obj.GetName(), err)
	}
	return nil
}

// wrapWriteError also wraps ErrUnusable if a retry cannot fix the error.
func wrapWriteError(name string, err error) error {
	err = fmt.Errorf("write instruction %q: %w", name, err)
	if apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) {
		return wrapUnusable(err)
	}
	return err
}

// maxReceiptProblem is the maximum length of spec.receiptProblem in the schema.
const maxReceiptProblem = 512

// chooseReceipt returns the receipt to keep after an instruction has arrived, and what is wrong
// with the instruction's receipt, "" if nothing is. A wrong receipt does not affect the placement.
// Without a checker, chooseReceipt returns the kept receipt.
func chooseReceipt(ctx context.Context, checker *receipt.Checker, in *v1.Instruction, kept *brokerv1alpha1.Receipt, received time.Time) (*brokerv1alpha1.Receipt, string) {
	if checker == nil {
		return kept, ""
	}
	choice, err := checker.Choose(in, kept, received)
	if err == nil {
		if choice == in.Receipt && in.State != v1.InstructionStateHold {
			// The object will soon be deleted. kubectl broker audit receipt --file reads this line
			// of the log.
			log.FromContext(ctx).Info("placement ended, its receipt", "placement", brokerv1alpha1.PlacementName(in.Reservation, in.Placement), "receipt", choice)
		}
		return choice, ""
	}
	log.FromContext(ctx).Info("WARNING: the broker's receipt is not accepted; the placement stays as it is",
		"reservation", in.Reservation, "placement", in.Placement, "reason", err.Error())
	return choice, message.Clip(err.Error(), maxReceiptProblem)
}
