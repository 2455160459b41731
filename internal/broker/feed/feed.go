// Package feed collects the names of what has changed, for controllers that publish it.
package feed

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// Feed collects the names of reservations and clusters that have changed. A name that changes
// several times is returned once. The change may not be durable yet; methods of Broker wait until
// it is durable.
type Feed struct {
	// mu guards the fields below.
	mu           sync.Mutex
	reservations map[string]struct{}
	clusters     map[string]struct{}
	more         chan struct{}
	// began is the number of sessions that have begun.
	began uint64
}

// New returns an empty Feed.
func New() *Feed {
	return &Feed{reservations: map[string]struct{}{}, clusters: map[string]struct{}{}, more: make(chan struct{})}
}

// SignalSession signals that a session has begun.
func (f *Feed) SignalSession() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.began++
	f.wakeReaders()
}

func (f *Feed) wakeReaders() {
	close(f.more)
	f.more = make(chan struct{})
}

// Terms calls begun whenever a session begins, and at once if one has begun already, until ctx
// ends. The caller then has to examine all objects, because it may have missed changes.
func (f *Feed) Terms(ctx context.Context, begun func()) {
	seen := uint64(0)
	for {
		f.mu.Lock()
		began, more := f.began, f.more
		f.mu.Unlock()
		if began != seen {
			seen = began
			begun()
			continue
		}
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}

// AddReservation notes that a reservation has changed.
func (f *Feed) AddReservation(name string) { f.putName(f.reservations, name) }

// AddCluster notes that a cluster has changed.
func (f *Feed) AddCluster(id string) { f.putName(f.clusters, id) }

func (f *Feed) putName(set map[string]struct{}, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	set[name] = struct{}{}
	f.wakeReaders()
}

// Reservations returns the names of the reservations that have changed since the last call, in random
// order. It waits until there are any or ctx ends.
func (f *Feed) Reservations(ctx context.Context) ([]string, error) {
	return f.takeNames(ctx, f.reservations)
}

// Clusters returns the IDs of the clusters that have changed since the last call, in random order. It
// waits until there are any or ctx ends.
func (f *Feed) Clusters(ctx context.Context) ([]string, error) { return f.takeNames(ctx, f.clusters) }

func (f *Feed) takeNames(ctx context.Context, set map[string]struct{}) ([]string, error) {
	for {
		f.mu.Lock()
		names := slices.Collect(maps.Keys(set))
		clear(set)
		more := f.more
		f.mu.Unlock()
		if len(names) > 0 {
			return names, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
