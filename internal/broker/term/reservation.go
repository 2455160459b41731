package term

import (
	"cmp"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// AnswerRetry is how long to wait before repeating a call that depends on a provider's answer.
const AnswerRetry = 2 * time.Second

// HasNoStandingPlacement reports whether a reservation needs a placement and has none. That happens
// if the broker stopped after it gave up one placement and before it granted the next.
func HasNoStandingPlacement(r *ledger.Reservation) bool {
	return r.EndReason == "" && r.Waiting == nil && !r.Stands(r.Current())
}

// EndOf says why a reservation ended.
func EndOf(r *ledger.Reservation) string {
	if r.History == nil {
		return "released"
	}
	return cmp.Or(r.EndMessage, "released")
}

// QueuePlace is a reservation's place in the queue.
type QueuePlace struct {
	// Place is the place in the queue, counted from 1; Length is the length of the queue.
	Place, Length int
	Since, Until  time.Time
	Reason        v1.QueuePlaceReason
}
