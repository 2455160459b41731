package term

import (
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
)

// TooLarge is the error for an event that does not fit in a record. Size is its size in bytes.
type TooLarge struct{ Size int }

// Error implements error.
func (e *TooLarge) Error() string {
	return fmt.Sprintf("it takes %d bytes of the journal, and one record holds %d", e.Size, journal.MaxRecordBytes)
}
