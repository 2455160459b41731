package news

import (
	"maps"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// objectPlace is the place of a Reservation object.
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
