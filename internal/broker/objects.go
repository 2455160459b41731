package broker

import (
	"maps"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// objects are, by where their object is, the reservations that were asked for with one and
// have not ended, each with the UID of its object. There is more than one where an object
// was made anew.
type objects map[objectPlace]map[string]string

type objectPlace struct{ namespace, name string }

// noteObject brings the objects in step with a reservation that changed.
func (t *session) noteObject(r *ledger.Reservation) {
	if r.Object == nil {
		return
	}
	place := objectPlace{r.Object.Namespace, r.Object.Name}
	here := t.objects[place]
	switch {
	case r.EndReason != "":
		if delete(here, r.Name); len(here) == 0 {
			delete(t.objects, place)
		}
	case here == nil:
		t.objects[place] = map[string]string{r.Name: r.Object.UID}
	default:
		here[r.Name] = r.Object.UID
	}
}

// HeldFor returns the names of the reservations that were asked for with an object of
// this name and have not ended, each with the UID of its object. It waits for nothing, as
// ManifestOf.
func (b *Broker) HeldFor(namespace, name string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.session == nil {
		return nil
	}
	return maps.Clone(b.session.objects[objectPlace{namespace, name}])
}
