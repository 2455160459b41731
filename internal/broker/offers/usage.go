package offers

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// usageRecord limits the size in bytes of a record about usage. It is well below the largest size
// of a record.
const usageRecord = journal.MaxRecordBytes / 2

const (
	// namedUnheld is the largest number of placements without a hold whose usage is recorded one by
	// one. An honest provider has few of them: placements that it is removing, and placements that
	// a restored book has lost.
	namedUnheld = 64
	// unheldSum is the name under which the sum of the usage of placements without a hold is recorded
	// if there are more than namedUnheld.
	unheldSum = "unheld"
)

// SumUnheld replaces the usage of the placements that hold nothing in the book by one sum, if more
// than namedUnheld of them are in use. The sum counts as used like its parts, and invented names
// of placements take no space in the journal. If such a placement is granted a hold, both its hold
// and its share of the sum are counted until the provider's next advertisement.
func SumUnheld(used map[string]quantity.Amounts, c *ledger.Cluster) {
	var names []string
	for placement := range used {
		if c == nil || !c.Holds(placement) {
			names = append(names, placement)
		}
	}
	if len(names) <= namedUnheld {
		return
	}
	sum := quantity.Amounts{}
	for _, placement := range names {
		sum.AddInPlace(used[placement])
		delete(used, placement)
	}
	used[unheldSum] = sum
}

// UsageParts returns the events that change the usage from before to after. Removed placements come
// first, so that the usage between two events is not needlessly large.
func UsageParts(clusterID string, before, after map[string]quantity.Amounts) []ledger.Usage {
	var parts []ledger.Usage
	size := usageRecord
	part := func(more int) *ledger.Usage {
		if size += more; size > usageRecord {
			parts, size = append(parts, ledger.Usage{ClusterID: clusterID}), more
		}
		return &parts[len(parts)-1]
	}
	for _, placement := range slices.Sorted(maps.Keys(before)) {
		if _, stays := after[placement]; !stays {
			p := part(len(placement) + 3)
			p.Drop = append(p.Drop, placement)
		}
	}
	for _, placement := range slices.Sorted(maps.Keys(after)) {
		used := after[placement]
		if known, ok := before[placement]; ok && known.Equal(used) {
			continue
		}
		text, err := json.Marshal(used)
		if err != nil {
			panic(err) // cannot happen: only names and numbers are encoded
		}
		p := part(len(placement) + len(text) + 4)
		if p.Set == nil {
			p.Set = map[string]quantity.Amounts{}
		}
		p.Set[placement] = used
	}
	return parts
}
