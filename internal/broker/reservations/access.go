package reservations

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// A member sees the reservations in which it takes part, and changes and releases those that it requested.

// FindReservation returns a reservation by its name, or by the key that the cluster gave it, and
// whether that key is closed. It does not return reservations in which the cluster takes no part.
func (rs *Reservations) FindReservation(clusterID, nameOrKey string) (r *ledger.Reservation, closed bool) {
	if r := rs.s.Book().Reservation(nameOrKey); r != nil && r.Involves(clusterID) {
		return r, false
	}
	return rs.s.Book().ByKey(clusterID, nameOrKey)
}

// CheckOwner returns an error if another cluster requested the reservation.
func CheckOwner(r *ledger.Reservation, clusterID string) error {
	if r.Requester != clusterID {
		return fault.New(fault.Forbidden, "reservation %q belongs to another cluster", r.Name)
	}
	return nil
}
