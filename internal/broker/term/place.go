package term

import (
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// QueuePlace is a reservation's place in the queue.
type QueuePlace struct {
	// Place is the place in the queue, counted from 1; Length is the length of the queue.
	Place, Length int
	Since, Until  time.Time
	Reason        v1.QueuePlaceReason
}
