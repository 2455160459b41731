package broker

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	costs "github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/archive"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// stored returns the names of the stored periods of a span.
func (f *fleet) stored(span costs.Span) []string {
	var out []string
	for _, obj := range f.server.Objects() {
		if obj.Labels[replay.LabelAccounts] == string(span) {
			out = append(out, strings.TrimSuffix(strings.TrimPrefix(obj.Name, JournalName+"-accounts-"), "-0"))
		}
	}
	slices.Sort(out)
	return out
}

// advertiseUse lets paris report that a reservation uses some cores.
func (f *fleet) advertiseUse(r *v1.Reservation, cores string) {
	f.t.Helper()
	f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"), func(a *v1.Advertisement) {
		a.Usage = []v1.Usage{{Reservation: r.Name, Placement: 1, Used: v1.Amounts{"cpu": cores}}}
	})
}

// The virtual time begins at midnight, so the first hour is over after 60 minutes.
func TestEndedPeriodsAreStoredOnce(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(func(r *v1.ReservationRequest) { fourHours(r); r.Tenant = "blue" }))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		for minute := range 61 {
			f.advertiseUse(r, "3")
			time.Sleep(time.Minute)
			if minute == 30 {
				f.kill()
			}
		}
		synctest.Wait()
		hours := f.stored(costs.Hour)
		if diff := cmp.Diff([]string{"hour-2000-01-01t00"}, hours); diff != "" {
			t.Fatalf("stored hours (-want +got):\n%s", diff)
		}
		p, err := replay.ReadPeriod(context.Background(), f.server.Client(), JournalName, hours[0])
		runtest.Check(t, err)
		key := costs.Key{Tenant: "blue", Requester: "rome", Provider: "paris", Currency: "EUR"}
		got := map[string]string{}
		for _, row := range p.Rows {
			if row.Key != key {
				t.Errorf("row of %+v", row.Key)
			}
			got[string(row.Resource)] = row.Held.Int().String() + " " + row.Used.Int().String() + " " + row.Unobserved.Int().String() + " " + row.Money.Money().String()
		}
		want := map[string]string{"cpu": "14400000 10800000 0 0.8", "memory": "3865470566400 0 0 0"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("held, used, unobserved, paid (-want +got):\n%s", diff)
		}
	})
}

// Each change is less than two percent of what the provider has, for which no offer is recorded.
func TestSmallUseOnALargeProviderIsCounted(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "1000", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		for minute := range 71 {
			cores := "1"
			if minute >= 15 {
				cores = "4"
			}
			f.advertise("paris", "1000", "64Gi", priced("0.2", "EUR"), func(a *v1.Advertisement) {
				a.Usage = []v1.Usage{{Reservation: r.Name, Placement: 1, Used: v1.Amounts{"cpu": cores}}}
			})
			time.Sleep(time.Minute)
		}
		synctest.Wait()
		p, err := replay.ReadPeriod(context.Background(), f.server.Client(), JournalName, "hour-2000-01-01t00")
		runtest.Check(t, err)
		// One core for 15 minutes, then four.
		if used, want := p.Rows[0].Used.Int64(), int64(15*60*1000+45*60*4000); p.Rows[0].Resource != "cpu" || used != want {
			t.Errorf("%d core milliseconds of %s are used, want %d", used, p.Rows[0].Resource, want)
		}
	})
}

// The counters follow from the journal, so a replica that takes over continues them.
func TestCostMetricsSurviveATakeover(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.wantSeries(map[string]string{}, "broker_cost", "broker_reserved_resource", "broker_used_resource")
		for minute := range 60 {
			f.advertiseUse(r, "3")
			time.Sleep(time.Minute)
			if minute == 30 {
				f.kill()
			}
		}
		f.mu.Lock()
		err := f.session.Record(ledger.Event{Change: &ledger.Observe{}})
		f.mu.Unlock()
		runtest.Check(t, err)
		f.wantSeries(map[string]string{
			"broker_cost_total{currency=EUR,provider=paris,requester=rome}":                                   "0.8",
			"broker_reserved_resource_seconds_total{provider=paris,requester=rome,resource=cpu,unit=core}":    "14400",
			"broker_used_resource_seconds_total{provider=paris,requester=rome,resource=cpu,unit=core}":        "10800",
			"broker_reserved_resource_seconds_total{provider=paris,requester=rome,resource=memory,unit=byte}": "3.8654705664e+12",
		}, "broker_cost", "broker_reserved_resource", "broker_used_resource")
	})
}

// Savings compare the cost with the dearest candidate at the time of the grant, and with the list
// price in force. Both comparisons survive a takeover.
func TestSavingsAgainstBothBaselines(t *testing.T) {
	inFleet(t, func(f *fleet) {
		offers := func(paris string) {
			f.advertise("paris", "16", "64Gi", priced(paris, "EUR"))
			f.advertise("oslo", "16", "64Gi", priced("0.5", "EUR"))
			f.advertise("bern", "16", "64Gi", priced("9", "CHF")) // not compared, because of its currency
			f.advertise("milan", "2", "64Gi", priced("7", "EUR")) // no candidate, because it is too small
			f.advertise("rome", "4", "8Gi")
		}
		f.set(func(c *settings.Config) { c.Weights = decision.Weights{decision.Cost: 100} })
		offers("0.2")
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		begin := time.Now()
		passUntil := func(hours time.Duration, paris string) {
			for end := begin.Add(hours * time.Hour); time.Now().Before(end); time.Sleep(min(time.Minute, time.Until(end))) {
				offers(paris)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			runtest.Check(t, f.session.Record(ledger.Event{Change: &ledger.Observe{}}))
		}
		passUntil(1, "0.2")
		// 4 cores for an hour: 0.8 EUR on paris, 2 EUR on oslo.
		want := map[string]string{"broker_savings_total{baseline=dearest,currency=EUR,provider=paris,requester=rome}": "1.2"}
		f.wantSeries(want, "broker_savings")
		f.set(func(c *settings.Config) {
			c.Document = []byte(`{"accounts":{"listPrice":{"currency":"EUR","cpuCost":"0.35"}},"generation":1}`)
		})
		time.Sleep(time.Second) // until the journal has stored the configuration
		f.kill()
		passUntil(2, "0.9")
		want["broker_savings_total{baseline=dearest,currency=EUR,provider=paris,requester=rome}"] = "2.4"
		want["broker_savings_total{baseline=list,currency=EUR,provider=paris,requester=rome}"] = "0.6"
		f.wantSeries(want, "broker_savings")
	})
}

func TestUseOfASilentProviderIsUnobserved(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(fourHours))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.advertiseUse(r, "3")
		time.Sleep(11 * time.Minute)
		f.mu.Lock()
		defer f.mu.Unlock()
		runtest.Check(t, f.session.Record(ledger.Event{Change: &ledger.Observe{}}))
		for _, row := range f.session.whole.Costs.Open(costs.Hour).Rows {
			if row.Resource != "cpu" {
				continue
			}
			// paris is silent after 90 s without a call.
			if used, silent := row.Used.Int64(), row.Unobserved.Int64(); used != 90*3000 || silent != 570*4000 {
				t.Errorf("%d was used and %d not observed of %d", used, silent, row.Held.Int64())
			}
		}
	})
}

func TestRetentionOfPeriodsIsConfigured(t *testing.T) {
	inFleet(t, func(f *fleet) {
		config := settings.Default()
		config.Accounts = archive.Retention{Days: 5, Months: 1}
		f.SetConfig(context.Background(), config)
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(func(r *v1.ReservationRequest) { fourHours(r); r.DurationSeconds = 100 * 86400 }))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(95 * 24 * time.Hour)
		synctest.Wait()
		if days := f.stored(costs.Day); len(days) < 5 || len(days) > 6 {
			t.Errorf("%d days are kept: %v", len(days), days)
		}
		if diff := cmp.Diff([]string{"month-2000-03"}, f.stored(costs.Month)); diff != "" {
			t.Errorf("months (-want +got):\n%s", diff)
		}
	})
}

func TestOldPeriodsAreDeleted(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi", priced("0.2", "EUR"))
		r := f.reserve("rome", "request-1", with(func(r *v1.ReservationRequest) { fourHours(r); r.DurationSeconds = 90 * 86400 }))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(40*24*time.Hour + time.Hour)
		synctest.Wait()
		days, hours := f.stored(costs.Day), f.stored(costs.Hour)
		if len(days) < 35 || len(days) > 36 || days[len(days)-1] != "day-2000-02-09" {
			t.Errorf("%d days are kept: %v", len(days), days)
		}
		if len(hours) < 48 || len(hours) > 49 {
			t.Errorf("%d hours are kept: %v", len(hours), hours)
		}
		if diff := cmp.Diff([]string{"month-2000-01"}, f.stored(costs.Month)); diff != "" {
			t.Errorf("months (-want +got):\n%s", diff)
		}
	})
}
