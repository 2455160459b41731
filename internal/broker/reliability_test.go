package broker

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
)

func (f *fleet) recordOf(id string) (reputation.Record, string) {
	f.t.Helper()
	v, err := f.Cluster(context.Background(), id)
	if err != nil {
		f.t.Fatal(err)
	}
	if v.Reliability == nil {
		return v.Record, "unknown"
	}
	return v.Record, fmt.Sprintf("%.2f", *v.Reliability)
}

// A provider with a better record is preferred if reliability has a weight, also after a
// takeover.
func TestPromisesKeptAndBroken(t *testing.T) {
	inFleet(t, func(f *fleet) {
		config := settings.Default()
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", busy)

		r := f.reserve("rome", "request-1", request("1", "1Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateRefused)
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(3 * time.Second)
		for range 2 { // a node that is Ready again must not count twice
			f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
			f.mustReport("rome", r, 2, consumer, v1.StatusReportStateNotReady)
		}
		for range 2 {
			record, share := f.recordOf("paris")
			if record.Granted != 1 || record.Refused != 1 || share != "0.40" {
				t.Errorf("paris: %+v, %s", record, share)
			}
			record, share = f.recordOf("berlin")
			if record.Granted != 1 || record.Ready != 1 || record.MeanToReady() != 3*time.Second || share != "0.67" {
				t.Errorf("berlin: %+v, %s", record, share)
			}
			f.kill()
		}
		config.Weights = decision.Weights{decision.Reliability: 100}
		f.SetConfig(context.Background(), config)
		if got := f.reserve("rome", "request-2", request("1", "1Gi")); target(got) != "berlin" {
			t.Errorf("%s got it, which refused before", target(got))
		}
		f.wantSeries(map[string]string{
			"broker_placements_total{member=paris,outcome=granted}":  "1",
			"broker_placements_total{member=paris,outcome=refused}":  "1",
			"broker_placements_total{member=berlin,outcome=granted}": "2",
			"broker_placements_total{member=berlin,outcome=ready}":   "1",
		}, "broker_placements_total")
	})
}

// A node that does not become Ready may be the consumer's fault. It counts against the provider
// only once another provider's node is Ready.
func TestNodeThatNeverWasReadyFailsOnceAnotherIsReady(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("rome", "1", "1Gi")
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi", busy)
		r := f.reserve("rome", "request-1", request("1", "1Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		time.Sleep(limits.Ready / 2)
		f.advertise("rome", "1", "1Gi")
		f.advertise("berlin", "8", "16Gi", busy)
		time.Sleep(limits.Ready/2 + time.Second)
		if record, share := f.recordOf("paris"); record.NeverReady != 0 || share != "unknown" {
			t.Errorf("paris: %+v, %s", record, share)
		}
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		if record, share := f.recordOf("paris"); record.NeverReady != 1 || share != "0.33" {
			t.Errorf("paris: %+v, %s", record, share)
		}
	})
}
