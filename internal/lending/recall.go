package lending

import "time"

// Recall asks for placements back that a cluster has lent.
type Recall struct {
	// A recall covers every consumer (Everybody), one Consumer or one Reservation.
	Everybody             bool
	Consumer, Reservation string
	// Notice is how long a placement may stay after the recall.
	Notice  time.Duration
	Message string
}

// RecallOf returns the recall that applies to a placement, or nil. If several apply, the one
// with the shortest notice wins; among equals, the first.
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
