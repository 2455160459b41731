package broker

import (
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

const (
	lease      = term.Lease
	renewEvery = term.RenewEvery
)

// renewLease extends a reservation without a duration, so that it ends one lease from now. It does
// nothing if too little time has passed since the last extension, because each extension costs a
// record, and nothing for any other reservation.
func (s *session) renewLease(r *ledger.Reservation) error {
	if r.Duration != 0 || r.EndReason != "" || r.Waiting != nil {
		return nil
	}
	until := s.Now().Add(lease)
	if until.Sub(r.Until) < renewEvery/2 {
		return nil
	}
	renew := &ledger.Renew{Name: r.Name, Until: until}
	renew.Price, renew.Repriced = s.repriceLease(r)
	return s.Record(ledger.Event{Change: renew})
}
