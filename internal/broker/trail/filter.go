package trail

import (
	"slices"
	"strings"
	"time"
)

// Filter selects records. Zero fields do not restrict the selection.
type Filter struct {
	// Actor is a text that the actor contains, either as recorded or in words.
	Actor string
	// Cluster is the ID of the requester, of the provider, or of the cluster that a record
	// describes.
	Cluster     string
	Reservation string
	Kinds       []string
	// Since and Until bound the time, both inclusive.
	Since, Until time.Time
}

// Within returns the records from the first to the last one whose time lies between Since and
// Until. A record without a time is treated as if it had the time of the record before it.
func (f *Filter) Within(records []Record) []Record {
	first, end := len(records), 0
	last := time.Time{}
	for i := range records {
		if at := records[i].Time; !at.IsZero() {
			last = at
		}
		if last.IsZero() && !(f.Since.IsZero() && f.Until.IsZero()) {
			continue // no record up to here has a time
		}
		if !last.Before(f.Since) && (f.Until.IsZero() || !last.After(f.Until)) {
			first, end = min(first, i), i+1
		}
	}
	if first >= end {
		return nil
	}
	return records[first:end]
}

// Select returns the records that match all fields of the filter.
func (f *Filter) Select(records []Record) []Record {
	var out []Record
	for _, r := range f.Within(records) {
		if f.matches(&r) {
			out = append(out, r)
		}
	}
	return out
}

func (f *Filter) matches(r *Record) bool {
	isActor := f.Actor == "" || strings.Contains(r.By, f.Actor) || strings.Contains(r.Actor, f.Actor)
	isCluster := f.Cluster == "" || f.Cluster == r.Requester || f.Cluster == r.Provider || f.Cluster == r.Cluster
	return isActor && isCluster && (f.Reservation == "" || f.Reservation == r.Reservation) &&
		(len(f.Kinds) == 0 || slices.Contains(f.Kinds, r.Kind))
}
