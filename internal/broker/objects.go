package broker

import (
	"maps"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// objects lists the reservations that Reservation objects requested and that have not ended. The
// first key is the object, the second the reservation's name; the value is the object's UID. An
// object that was deleted and created again has several reservations for a while.
type objects map[objectPlace]map[string]string

type objectPlace struct{ namespace, name string }

func (o objects) reservationChanged(r *ledger.Reservation) {
	if r.Object == nil {
		return
	}
	place := objectPlace{r.Object.Namespace, r.Object.Name}
	here := o[place]
	switch {
	case r.EndReason != "":
		if delete(here, r.Name); len(here) == 0 {
			delete(o, place)
		}
	case here == nil:
		o[place] = map[string]string{r.Name: r.Object.UID}
	default:
		here[r.Name] = r.Object.UID
	}
}

// HeldFor returns the reservations that an object of this name asked for and that have not ended,
// as a map from the name of the reservation to the UID of its object. An object that was deleted
// and created again has a new UID. HeldFor does not wait until the reservations are durable.
func (b *Broker) HeldFor(namespace, name string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return nil
	}
	return maps.Clone(b.session.objects[objectPlace{namespace, name}])
}
