package offers

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Demand is the sum of the requests of a cluster's own pods for which its scheduler finds no
// node, as last advertised. It is only shown, and no decision uses it. So it is in memory only, and
// not in the journal.
type Demand struct {
	// Requests contains the number of pods as "pods". It is empty if no pod waits.
	Requests quantity.Amounts
	// Since is when the pod that has waited longest began to wait, by the broker's clock. It is
	// zero if no pod waits.
	Since time.Time
}

const (
	// maxPendingResources is how many resources an advertisement may name as pending.
	maxPendingResources = 32
	// maxWait is how long a pod may have waited. It keeps Since within the dates that can be
	// stored.
	maxWait = 10 * 365 * 24 * time.Hour
	// sinceSlack is by how much Since may differ from the recorded time without counting as a
	// change. Agents send how long a pod has waited, and advertisements take different times to
	// arrive.
	sinceSlack = 10 * time.Second
)

// ReadDemand returns the pending demand in an advertisement, or an error for impossible values.
func ReadDemand(adv *v1.Advertisement, now time.Time) (Demand, error) {
	if adv.Pending == nil {
		return Demand{}, nil
	}
	if n := len(adv.Pending.Requests); n > maxPendingResources {
		return Demand{}, fmt.Errorf("pending: %d resources are named: at most %d are accepted", n, maxPendingResources)
	}
	requests, err := wire.ToAmounts(adv.Pending.Requests)
	if err != nil {
		return Demand{}, fmt.Errorf("pending: %w", err)
	}
	seconds := adv.Pending.WaitingSeconds
	if seconds < 0 || seconds > int64(maxWait/time.Second) {
		return Demand{}, fmt.Errorf("pending: waitingSeconds %d is not between 0 and %d (ten years)", seconds, int64(maxWait/time.Second))
	}
	if requests.IsZero() {
		return Demand{}, nil
	}
	return Demand{Requests: requests, Since: now.Add(-time.Duration(seconds) * time.Second)}, nil
}

// DiffersMaterially reports whether the demand differs from the recorded one: an amount by more
// than 1/materialShare, or Since by more than sinceSlack.
func (d *Demand) DiffersMaterially(recorded *Demand) bool {
	if d.Since.IsZero() != recorded.Since.IsZero() || d.Since.Sub(recorded.Since).Abs() > sinceSlack {
		return true
	}
	return differsFrom(recorded.Requests, d.Requests, recorded.Requests)
}
