package broker

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
)

// SetConfig replaces the configuration; the next decision uses it. When it returns, a cluster that
// c does not admit is denied. Existing reservations keep their capacity.
func (b *Broker) SetConfig(_ context.Context, c settings.Config) {
	b.applyConfig(c)
	b.gate.Set(c.Access)
}

func (b *Broker) applyConfig(c settings.Config) {
	b.mu.Lock()
	defer b.mu.Unlock()
	before, known := b.config, b.configured
	retimed := c.Timeouts != before.Timeouts
	bounded := !reflect.DeepEqual(c.Idle, before.Idle)
	b.config, b.configured = c, true
	if b.session != nil {
		b.session.market.SetRates(c.Rates)
		b.session.recordConfiguration()
		b.session.UpdateAllClusters()
		b.session.Drains.Apply(before.Drains, known)
		b.session.ApplyRules()
		b.session.RefreshAllCapacities()
		if c.Queue.Paused != before.Queue.Paused || !known {
			for _, r := range b.session.Waiting() {
				b.session.publishChange(r) // statuses show whether the queue is paused
			}
		}
		b.session.Quotes.RescheduleAll()
		if retimed {
			b.session.RescheduleReservations()
		}
		if bounded || !known {
			b.session.book.Reservations(b.session.Idles.ReservationChanged)
		}
		b.session.ServeWaiting()
	}
}

// Configured reports whether SetConfig was called. Before that the broker makes no decision, and
// Access admits no cluster.
func (b *Broker) Configured() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.configured
}

// Access returns the gate that admits clusters under the current configuration.
func (b *Broker) Access() *access.Gate { return b.gate }

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
