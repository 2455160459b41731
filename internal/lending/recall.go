package lending

import "time"

// Recall calls placements back that a cluster lends.
type Recall struct {
	// Everybody, or one Consumer, or one Reservation.
	Everybody             bool
	Consumer, Reservation string
	// Notice is how long they stay after they were called back.
	Notice  time.Duration
	Message string
}

// RecallOf is the recall that counts for a placement, nil if none does: of several that
// with the shortest notice, the first of equals.
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
