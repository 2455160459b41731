package broker

import (
	"errors"
	"fmt"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// tooLarge is the error for an event that does not fit in a record.
type tooLarge struct{ size int }

func (e *tooLarge) Error() string {
	return fmt.Sprintf("it takes %d bytes of the journal, and one record holds %d", e.size, journal.MaxRecordBytes)
}

// recordOffer records an offer. If it does not fit in one record, the offer is recorded without the
// usage of its placements, and events of type ledger.Usage follow that change the usage in parts.
func (cs *clusters) recordOffer(offer *ledger.Offer) error {
	err := cs.s.record(ledger.Event{Change: offer})
	if _, large := errors.AsType[*tooLarge](err); !large {
		return err
	}
	apart := *offer
	apart.Used, apart.UsedApart = nil, true
	err = cs.s.record(ledger.Event{Change: &apart})
	if large, ok := errors.AsType[*tooLarge](err); ok {
		return fault.New(fault.TooLarge, "advertisement of %q takes %d bytes of the journal beside what its placements use, and %d fit: show fewer shapes of nodes, or fewer labels and claims",
			offer.ClusterID, large.size, journal.MaxRecordBytes)
	}
	if err != nil {
		return err
	}
	for _, part := range offers.UsageParts(offer.ClusterID, cs.s.book.Cluster(offer.ClusterID).Used, offer.Used) {
		if err := cs.s.record(ledger.Event{Change: &part}); err != nil {
			return err
		}
	}
	return nil
}
