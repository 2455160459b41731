package ledger

import "time"

// State is the book. The zero value is not usable; see New. It is not safe for concurrent
// use.
type State struct {
	position     uint64
	clusters     clusters
	reservations map[string]*Reservation
	// keys holds the reservation of each key, shut the time at which each unusable key was
	// shut.
	keys     map[keyRef]*Reservation
	shut     map[keyRef]time.Time
	quotes   Quotes
	lineages Lineages
	shared   shared
}

type keyRef struct{ requester, key string }

// New returns an empty book.
func New() *State {
	return &State{
		clusters:     newClusters(),
		reservations: map[string]*Reservation{},
		keys:         map[keyRef]*Reservation{},
		shut:         map[keyRef]time.Time{},
		quotes:       newQuotes(),
		shared:       newShared(),
	}
}

// Size returns how many clusters and reservations are in the book.
func (s *State) Size() int { return len(s.clusters.byID) + len(s.reservations) }

// Position returns the position of the last event that was applied.
func (s *State) Position() uint64 { return s.position }

// Cluster returns a cluster by its ID, nil if there is none. The caller must not change it.
func (s *State) Cluster(id string) *Cluster { return s.clusters.byID[id] }

// ByManifest returns the cluster whose offer is in the named object, nil if there is none. The
// caller must not change it.
func (s *State) ByManifest(namespace, name string) *Cluster {
	return s.clusters.manifests[objectName{namespace, name}]
}

// Clusters calls f for every cluster, in no order.
func (s *State) Clusters(f func(*Cluster)) {
	for _, c := range s.clusters.byID {
		f(c)
	}
}

// Reservation returns a reservation by name, nil if there is none. The caller
// must not change it.
func (s *State) Reservation(name string) *Reservation { return s.reservations[name] }

// Reservations calls f for every reservation, in no order.
func (s *State) Reservations(f func(*Reservation)) {
	for _, r := range s.reservations {
		f(r)
	}
}

// ByKey returns the reservation of a requester's key, and reports whether the key is shut.
func (s *State) ByKey(requester, key string) (r *Reservation, shut bool) {
	_, shut = s.shut[keyRef{requester, key}]
	return s.keys[keyRef{requester, key}], shut
}

// HasAgent reports whether the cluster's agent has ever made an offer.
func (s *State) HasAgent(clusterID string) bool { return s.clusters.hasAgent(clusterID) }
