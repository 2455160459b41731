package term

import (
	"errors"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// TooLarge is the error for an event that does not fit in a record. Size is its size in bytes.
type TooLarge struct{ Size int }

// Error implements error.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("it takes %d bytes of the journal, and one record holds %d", e.Size, journal.MaxRecordBytes)
}

// FaultOf converts an error of the ledger to the fault that a caller gets.
func FaultOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ledger.ErrUnknown):
		return fault.New(fault.NotFound, "%v", err)
	case errors.Is(err, ledger.ErrMalformed):
		return fault.New(fault.Invalid, "%v", err)
	case errors.Is(err, ledger.ErrOver), errors.Is(err, ledger.ErrTaken):
		return fault.New(fault.Conflict, "%v", err)
	default:
		return err
	}
}

// ErrUnconfigured returns the refusal of a call before the broker has read its configuration.
func ErrUnconfigured() *fault.Error {
	return fault.New(fault.Unavailable, "the broker has not read its configuration yet; nothing was changed, try again").RetryIn(time.Second)
}
