package outbox

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Reasons of the Kubernetes Events that tell administrators about problems.
const (
	// ReasonFailing means that a channel's receiver has not accepted events for a minute.
	ReasonFailing = "NotificationsFailing"
	// ReasonDropped means that events were dropped because no attempt succeeded for 24 hours.
	ReasonDropped = "NotificationsDropped"
	// ReasonLost means that records were deleted from the journal before their events were delivered.
	ReasonLost = "NotificationsLost"
)

// Values of the label result.
const (
	resultDelivered = "delivered"
	resultFailed    = "failed"
	resultDropped   = "dropped"
	resultLost      = "lost"
)

type meter struct {
	exports *prometheus.CounterVec
	lag     *prometheus.Desc
}

func newMeter() *meter {
	return &meter{
		exports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "broker_exports_total",
			Help: "Events for channels by result: delivered, dropped after 24 h, failed attempts, and lost in a gap.",
		}, []string{"channel", "result"}),
		lag: prometheus.NewDesc("broker_export_lag_seconds", "How long the oldest event of a notification channel is overdue; 0 if there is none.", []string{"channel"}, nil),
	}
}

func (m *meter) countEvents(channel, result string, n int) {
	m.exports.WithLabelValues(channel, result).Add(float64(n))
}

// Describe implements prometheus.Collector.
func (o *Outbox) Describe(out chan<- *prometheus.Desc) {
	o.meter.exports.Describe(out)
	out <- o.meter.lag
}

// Collect implements prometheus.Collector. It exports nothing unless this replica delivers events.
func (o *Outbox) Collect(out chan<- prometheus.Metric) {
	if _, serving := o.opts.Position(); !serving {
		return
	}
	now := o.opts.Now()
	lags := map[string]time.Duration{}
	o.mu.Lock()
	for i := range o.channels { // a channel has no courier while the cursors cannot be read
		lags[o.channels[i].Name] = o.lagOf(nil, now)
	}
	for _, c := range o.couriers {
		lags[c.channel.Name] = o.lagOf(c, now)
	}
	o.mu.Unlock()
	if len(lags) == 0 {
		return
	}
	for channel, lag := range lags {
		for _, result := range []string{resultDelivered, resultFailed, resultDropped, resultLost} {
			o.meter.countEvents(channel, result, 0)
		}
		out <- prometheus.MustNewConstMetric(o.meter.lag, prometheus.GaugeValue, lag.Seconds(), channel)
	}
	o.meter.exports.Collect(out)
}

// lagOf returns for how long the oldest undelivered event of a courier has been overdue. The group
// wait of the channel does not count. While the journal cannot be read, lagOf returns at least the
// time since the last read, also without a courier. The caller holds mu.
func (o *Outbox) lagOf(c *courier, now time.Time) time.Duration {
	lag := now.Sub(o.newest)
	if lag < 3*pollInterval {
		lag = 0
	}
	if c != nil && len(c.queue) > 0 {
		lag = max(lag, now.Sub(c.queue[0].event.Data.Time)-c.channel.GroupWait)
	}
	return lag
}
