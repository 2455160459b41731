package broker

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Default timeouts for which the tests wait.
const (
	advertiseEvery = 30 * time.Second
	staleAfter     = 3 * advertiseEvery
)

var limits = settings.DefaultTimeouts().Placement

// setTimeouts changes the timeouts of the fleet's broker.
func (f *fleet) setTimeouts(change func(*term.Timeouts)) {
	config := settings.Default()
	change(&config.Timeouts)
	f.SetConfig(context.Background(), config)
}

// acknowledgedByParis returns a reservation of rome that waits for its virtual node.
func (f *fleet) acknowledgedByParis() *v1.Reservation {
	f.t.Helper()
	f.advertise("rome", "1", "1Gi")
	f.advertise("paris", "16", "64Gi")
	r := f.reserve("rome", "request-1", request("2", "4Gi"))
	f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
	return r
}

// Timeouts apply to placements that were granted before they changed.
func TestReadyTimeoutIsConfigurable(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.acknowledgedByParis()
		f.setTimeouts(func(ts *term.Timeouts) { ts.Placement.Ready = 10 * time.Minute })
		f.pass(9*time.Minute, "")
		f.wantPlacements(r, "after nine minutes", "Reserved: paris=Acknowledged")
		f.pass(2*time.Minute, "")
		if got := f.get("rome", r.Name); got.Placements[0].Reason != "NeverReady" {
			t.Errorf("after eleven minutes: %+v, want NeverReady", got.Placements)
		}
	})
}

// A load balancer or tunnel may take minutes to set up. The broker waits for it until a deadline that it reports.
func TestNetworkHasItsOwnTime(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.acknowledgedByParis()
		time.Sleep(20 * time.Second)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateConnecting)
		until := time.Now().Add(limits.Network).UTC().Format(time.RFC3339)
		for range 2 { // the deadline survives a takeover, and a repeated report does not move it
			f.wantPlacements(r, "while the network is set up", "Reserved: paris=Connecting")
			if got := f.get("rome", r.Name).Message; !strings.Contains(got, "network between rome and paris until "+until) {
				t.Errorf("rome is told %q, want until %s", got, until)
			}
			if left := f.poll("rome", "").Instructions[0].ConnectSeconds; left == nil || *left < limits.Network.Seconds()-1 {
				t.Errorf("rome has %v seconds, want %s", left, limits.Network)
			}
			f.kill()
			f.mustReport("rome", r, 1, consumer, v1.StatusReportStateConnecting)
		}
		f.pass(limits.Network-time.Minute, "")
		f.wantPlacements(r, "a minute before the end", "Reserved: paris=Connecting")
		f.pass(time.Minute+time.Second, "")
		if got := f.get("rome", r.Name); got.Placements[0].Reason != "NeverConnected" {
			t.Errorf("afterwards: %+v, want NeverConnected", got.Placements)
		}
	})
}

func TestNodeHasADeadlineOnceTheRequestersAgentEnrols(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, v1.StatusReportStateAcknowledged)
		f.pass(limits.Ready+time.Minute, "rome")
		f.wantPlacements(r, "without an agent of rome", "Reserved: paris=Acknowledged")
		f.pass(limits.Ready-time.Second, "")
		f.wantPlacements(r, "before the time of its agent is over", "Reserved: paris=Acknowledged")
		f.pass(2*time.Second, "")
		if got := f.get("rome", r.Name); got.Placements[0].Reason != "NeverReady" {
			t.Errorf("afterwards: %+v, want NeverReady", got.Placements)
		}
	})
}

func TestNodeThatIsReadyNoLongerWaitsForItsNetwork(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.acknowledgedByParis()
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateConnecting)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateReady)
		f.mustReport("rome", r, 1, consumer, v1.StatusReportStateConnecting) // sent before the node was Ready, but delayed
		f.wantPlacements(r, "once it is Ready", untouched)
		if left := f.poll("rome", "").Instructions[0].ConnectSeconds; left != nil {
			t.Errorf("rome is told that %v seconds are left", *left)
		}
	})
}

// The broker accepts the state Connecting only from the requester, because the provider would
// profit from more time.
func TestOnlyRequesterMayReportThatItConnects(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.acknowledgedByParis()
		err := f.ReportStatus(context.Background(), "paris", r.Name, &v1.StatusReport{Placement: 1, Role: provider, State: v1.StatusReportStateConnecting})
		if fault.ReasonOf(err) != fault.Invalid {
			t.Errorf("paris reports that it connects: %v, want Invalid", err)
		}
		f.pass(limits.Ready+time.Second, "")
		if got := f.get("rome", r.Name); got.Placements[0].Reason != "NeverReady" {
			t.Errorf("after two minutes: %+v, want NeverReady", got.Placements)
		}
	})
}

func TestClusterIsStaleAfterConfiguredSilence(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.setTimeouts(func(ts *term.Timeouts) { ts.Silence, ts.Healing = 5*time.Minute, 5*time.Minute })
		receipt, err := f.PublishAdvertisement(context.Background(), "paris", &v1.Advertisement{
			ClusterID: "paris", Sequence: 1, EndpointURL: endpointOf("paris"),
			Capacity: v1.Amounts{"cpu": "8"}, Allocatable: v1.Amounts{"cpu": "8"},
		})
		if err != nil || receipt.NextSeconds != 100 {
			t.Fatalf("next advertisement in %d s, %v; want 100", receipt.NextSeconds, err)
		}
		time.Sleep(4 * time.Minute)
		if view, err := f.Cluster(context.Background(), "paris"); err != nil || view.Phase != term.Active {
			t.Errorf("after four minutes: %+v, %v; want Active", view, err)
		}
		time.Sleep(2 * time.Minute)
		if view, err := f.Cluster(context.Background(), "paris"); err != nil || view.Phase != term.Stale {
			t.Errorf("after six minutes: %+v, %v; want Stale", view, err)
		}
	})
}

func TestReservationsMoveAfterTheConfiguredTime(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.setTimeouts(func(ts *term.Timeouts) { ts.Healing = 10 * time.Minute })
		r := f.servedByParis()
		f.pass(9*time.Minute, "paris")
		f.wantPlacements(r, "after nine minutes of silence", untouched)
		f.pass(2*time.Minute, "paris")
		if got := f.get("rome", r.Name); len(got.Placements) != 2 {
			t.Errorf("after eleven minutes of silence: %+v, want a second placement", got.Placements)
		}
	})
}
