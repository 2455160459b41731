package broker

import (
	"encoding/json"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
)

// recordConfiguration records the current configuration if it differs from the one in the book.
// Existing reservations stay as they are.
func (s *session) recordConfiguration() {
	c, known := s.currentConfig(), s.book.Configuration()
	if known.InForce(c.Document, c.OverSubscription) {
		return
	}
	by := c.By
	if known.Document != nil && generationIn(known.Document) == c.Generation {
		by = "" // the BrokerConfig has not changed, so the change comes from other defaults of this version of the broker
	}
	differences, err := known.DifferencesTo(c.Document)
	if err == nil && len(differences) == 0 {
		differences = []json.RawMessage{nil}
	}
	for _, difference := range differences {
		if err == nil {
			err = s.Record(ledger.Event{By: by, Change: &ledger.Configure{
				Difference: difference, Ceilings: ledger.Ceilings{OverSubscription: c.OverSubscription},
			}})
		}
	}
	if err != nil {
		s.log.Error(err, "recording the configuration failed, retrying with the next change or term")
		return
	}
	s.log.Info("configuration changed", "generation", c.Generation, "by", by.String(), "ceilings", c.OverSubscription.Texts())
}

func generationIn(document json.RawMessage) int64 {
	var out struct {
		Generation int64 `json:"generation"`
	}
	_ = json.Unmarshal(document, &out) // if there is no generation, it stays 0
	return out.Generation
}
