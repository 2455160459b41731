package reputation

import "time"

// Record counts the outcomes of the placements on a provider.
//
// The share of kept promises is the mean of a Beta distribution that begins with one kept and one
// broken promise (A. Jøsang, R. Ismail, The Beta Reputation System, 2002). At the end of every
// week, Kept and Broken are halved. Only whole weeks and integers are used, so that the result is
// the same on every machine.
type Record struct {
	// Granted counts all placements, Ready those whose virtual node became Ready.
	Granted int64 `json:"granted,omitempty"`
	Ready   int64 `json:"ready,omitempty"`
	// Refused counts the placements that the provider itself gave up before their nodes were Ready,
	// Unanswered those that it did not acknowledge in time. NeverReady counts those whose node did not
	// become Ready in time, although another provider's node then became Ready for the same
	// reservation. Without this success elsewhere, the consumer may be at fault.
	Refused    int64 `json:"refused,omitempty"`
	Unanswered int64 `json:"unanswered,omitempty"`
	NeverReady int64 `json:"neverReady,omitempty"`
	// Dropped counts the placements that had served and were then given up because of the provider.
	Dropped int64 `json:"dropped,omitempty"`
	// ToReady is the sum, over all placements in Ready, of the time from grant to Ready.
	ToReady time.Duration `json:"toReady,omitempty"`
	// Kept and Broken count promises in thousandths. They include the weekly halvings up to Week,
	// which is a number of weeks since the Unix epoch.
	Kept   int64 `json:"kept,omitempty"`
	Broken int64 `json:"broken,omitempty"`
	Week   int64 `json:"week,omitempty"`
}

const (
	// Promise is the weight of one promise. A refused placement adds only half of it to Broken,
	// because the provider refuses at once.
	Promise int64 = 1000
	week          = int64(7 * 24 * time.Hour / time.Second)
)

// Share returns the share of promises that the provider has kept, from 0 to 1. It returns false if
// there is no record yet.
func (r Record) Share(now time.Time) (float64, bool) {
	r.ageTo(now)
	if r.Kept+r.Broken == 0 {
		return 0, false
	}
	return float64(r.Kept+Promise) / float64(r.Kept+r.Broken+2*Promise), true
}

// MeanToReady returns the mean time from grant to Ready, 0 if no node has become Ready yet.
func (r Record) MeanToReady() time.Duration {
	if r.Ready == 0 {
		return 0
	}
	return r.ToReady / time.Duration(r.Ready)
}

// Keep adds a placement whose node became Ready, and so a kept promise.
func (r *Record) Keep(at time.Time, toReady time.Duration) {
	r.ageTo(at)
	r.Kept += Promise
	r.Ready++
	r.ToReady += max(toReady, 0)
}

// Break increments count, and adds a broken promise, given in thousandths, to Broken.
func (r *Record) Break(at time.Time, count *int64, thousandths int64) {
	r.ageTo(at)
	*count++
	r.Broken += thousandths
}

func (r *Record) ageTo(now time.Time) {
	present := now.Unix() / week
	if weeks := min(present-r.Week, 63); weeks > 0 {
		r.Kept, r.Broken, r.Week = r.Kept>>weeks, r.Broken>>weeks, present
	}
}
