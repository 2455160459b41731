// Package news indexes the reservations by the clusters that take part in them, in the order of their last changes, and
// by the objects that requested them.
package news

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// News lists, for each cluster, the changed reservations in which it takes part, and for each object
// the reservations that it requested.
type News struct {
	book      *ledger.State
	byCluster map[string]*newsLog
	byObject  map[objectPlace]map[string]string
}

// New returns News of the reservations in a book, without any.
func New(book *ledger.State) *News {
	return &News{book: book, byCluster: map[string]*newsLog{}, byObject: map[objectPlace]map[string]string{}}
}

// newsLog lists changes for one cluster, the oldest first. If a reservation changes again, its
// former entry is outdated. Readers skip outdated entries, and sweepOutdated removes them.
type newsLog struct {
	entries []newsEntry
	// changed is closed and replaced when an entry is added.
	changed chan struct{}
}

type newsEntry struct {
	position uint64
	name     string
}

func (ns *News) logOf(clusterID string) *newsLog {
	n := ns.byCluster[clusterID]
	if n == nil {
		n = &newsLog{changed: make(chan struct{})}
		ns.byCluster[clusterID] = n
	}
	return n
}

// ReservationChanged adds a reservation to the news of every cluster that takes part in it.
func (ns *News) ReservationChanged(r *ledger.Reservation) {
	ns.noteObject(r)
	ns.logOf(r.Requester).addEntry(r, ns.book)
	for i := range r.Placements {
		if p := r.Placements[i].Provider; p != r.Requester {
			ns.logOf(p).addEntry(r, ns.book)
		}
	}
}

// ReservationsOf returns the reservations in which a cluster takes part, sorted by name.
func (ns *News) ReservationsOf(clusterID string) []*ledger.Reservation {
	return slices.SortedFunc(ns.TakingPart(clusterID), func(a, b *ledger.Reservation) int { return cmp.Compare(a.Name, b.Name) })
}

func (n *newsLog) addEntry(r *ledger.Reservation, state *ledger.State) {
	if len(n.entries) == cap(n.entries) {
		n.sweepOutdated(state)
	}
	entry := newsEntry{r.Changed, r.Name}
	if last := len(n.entries) - 1; last >= 0 && n.entries[last] == entry {
		return // the reservation has two placements on this cluster
	}
	n.entries = append(n.entries, entry)
	close(n.changed)
	n.changed = make(chan struct{})
}

// TakingPart iterates over the reservations in which a cluster takes part, in the order of their last
// changes.
func (ns *News) TakingPart(clusterID string) iter.Seq[*ledger.Reservation] {
	return ns.logOf(clusterID).reservationsFrom(0, ns.book)
}

// ShareReservation reports whether two clusters take part in a reservation that is not over.
func (ns *News) ShareReservation(a, b string) bool {
	for r := range ns.TakingPart(a) {
		if r.Involves(b) && r.Involves(a) && !r.Unclaimed && !r.Over() {
			return true
		}
	}
	return false
}

// Changed returns a channel that is closed when a reservation changes in which a cluster takes part.
func (ns *News) Changed(clusterID string) <-chan struct{} { return ns.logOf(clusterID).changed }

// ChangedSince returns the reservations in which a cluster takes part and that changed after a
// position, in the order of their last changes.
func (ns *News) ChangedSince(clusterID string, position uint64) []*ledger.Reservation {
	n := ns.logOf(clusterID)
	from, _ := slices.BinarySearchFunc(n.entries, position, func(e newsEntry, p uint64) int {
		if e.position <= p {
			return -1
		}
		return 1
	})
	return slices.Collect(n.reservationsFrom(from, ns.book))
}

// reservationsFrom iterates over the reservations of the entries from the given index on. It yields
// each reservation once, because it skips outdated entries.
func (n *newsLog) reservationsFrom(from int, state *ledger.State) iter.Seq[*ledger.Reservation] {
	return func(yield func(*ledger.Reservation) bool) {
		for _, e := range n.entries[from:] {
			if r := e.reservationIn(state); r != nil && !yield(r) {
				return
			}
		}
	}
}

// reservationIn returns the reservation that an entry is about, nil if the entry is outdated.
func (e newsEntry) reservationIn(state *ledger.State) *ledger.Reservation {
	if r := state.Reservation(e.name); r != nil && r.Changed == e.position {
		return r
	}
	return nil
}

// sweepOutdated removes outdated entries from a full log and grows it if few were outdated. So the
// log has at most about 1.5 entries for each reservation, even if the cluster never fetches them.
func (n *newsLog) sweepOutdated(state *ledger.State) {
	n.entries = slices.DeleteFunc(n.entries, func(e newsEntry) bool { return e.reservationIn(state) == nil })
	if full := cap(n.entries); len(n.entries) > full-full/4-1 {
		n.entries = append(make([]newsEntry, 0, full+full/2+1), n.entries...)
	}
}

type objectPlace struct{ namespace, name string }

// noteObject updates the reservations that a Reservation object requested and that have not ended. The
// first key of byObject is the object, the second the reservation's name; the value is the object's UID.
// An object that was deleted and created again has several reservations for a while.
func (ns *News) noteObject(r *ledger.Reservation) {
	if r.Object == nil {
		return
	}
	place := objectPlace{r.Object.Namespace, r.Object.Name}
	here := ns.byObject[place]
	switch {
	case r.EndReason != "":
		if delete(here, r.Name); len(here) == 0 {
			delete(ns.byObject, place)
		}
	case here == nil:
		ns.byObject[place] = map[string]string{r.Name: r.Object.UID}
	default:
		here[r.Name] = r.Object.UID
	}
}

// OfObject returns the reservations that an object of this name requested and that have not ended, as a
// map from the name of the reservation to the UID of its object.
func (ns *News) OfObject(namespace, name string) map[string]string {
	return maps.Clone(ns.byObject[objectPlace{namespace, name}])
}
