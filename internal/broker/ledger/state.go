package ledger

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// State is the book, see the package comment. The zero value is not usable; see New. It is not safe
// for concurrent use.
type State struct {
	position uint64
	// latest is the latest time of any applied event.
	latest Instant
	// by is the actor of the event that is being applied, "" between events.
	by           Actor
	clusters     clusters
	reservations map[string]*Reservation
	// keys maps each key to its reservation. closedKeys maps each closed key, which cannot be used, to
	// the time at which it was closed.
	keys       map[keyRef]*Reservation
	closedKeys map[keyRef]time.Time
	quotes     Quotes
	lineages   Lineages
	shared     shared
}

type keyRef struct{ requester, key string }

// New returns an empty book.
func New() *State {
	return &State{
		clusters:     clusters{byID: map[string]*Cluster{}, manifests: map[objectName]*Cluster{}},
		reservations: map[string]*Reservation{},
		keys:         map[keyRef]*Reservation{},
		closedKeys:   map[keyRef]time.Time{},
		quotes:       Quotes{named: map[string]*Quote{}, keys: map[keyRef]*Quote{}, of: map[string][]*Quote{}},
		shared:       shared{map[string]quantity.Amounts{}, map[string]string{}, map[string]*Price{}, map[Actor]*Actor{}},
	}
}

// Size returns the number of clusters plus the number of reservations in the book.
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

// Clusters calls f for every cluster, in random order.
func (s *State) Clusters(f func(*Cluster)) {
	for _, c := range s.clusters.byID {
		f(c)
	}
}

// Reservation returns a reservation by name, nil if there is none. The caller
// must not change it.
func (s *State) Reservation(name string) *Reservation { return s.reservations[name] }

// Reservations calls f for every reservation, in random order.
func (s *State) Reservations(f func(*Reservation)) {
	for _, r := range s.reservations {
		f(r)
	}
}

// ByKey returns the reservation that a requester requested under a key, nil if there is none, and
// whether the key is closed.
func (s *State) ByKey(requester, key string) (r *Reservation, closed bool) {
	_, closed = s.closedKeys[keyRef{requester, key}]
	return s.keys[keyRef{requester, key}], closed
}

// HasAgent reports whether the cluster's agent has made an offer, and the cluster was not forgotten
// since.
func (s *State) HasAgent(clusterID string) bool { return s.clusters.hasAgent(clusterID) }
