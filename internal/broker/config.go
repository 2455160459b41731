package broker

import (
	"context"
	"reflect"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
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
