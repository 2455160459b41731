package lending

import "time"

// Recall is a provider's demand to get placements back. It covers every consumer
// (Everybody), one Consumer or one Reservation.
type Recall struct {
	Everybody             bool
	Consumer, Reservation string
	// Notice is how long a placement may stay after the recall. Message tells the consumer
	// the reason.
	Notice  time.Duration
	Message string
}

// RecallOf returns the recall that applies to a placement; nil if there is none. If several
// apply, it returns the one with the shortest notice, or the first one among equals.
func RecallOf(all []Recall, consumer, reservation string) *Recall {
	var counts *Recall
	for i := range all {
		r := &all[i]
		covers := r.Everybody || r.Consumer == consumer && consumer != "" || r.Reservation == reservation && reservation != ""
		if covers && (counts == nil || r.Notice < counts.Notice) {
			counts = r
		}
	}
	return counts
}
