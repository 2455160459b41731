package inbox

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/log"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
)

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
