package broker

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// lends makes a cluster of the fleet advertise its lending terms.
func (f *fleet) lends(id string, terms v1.Lending) {
	f.t.Helper()
	f.advertise(id, "16", "64Gi", func(a *v1.Advertisement) { a.Lending = terms })
}

func TestPausedProviderIsPassedOver(t *testing.T) {
	tests := map[string]struct {
		terms v1.Lending
		want  string
	}{
		"lending is paused":       {v1.Lending{Paused: true}, "paris: lending is paused"},
		"it is uninstalled":       {v1.Lending{Unready: "Uninstalling"}, "paris: no longer lends: its agent is being uninstalled"},
		"its Liqo does not run":   {v1.Lending{Unready: "LiqoNotRunning"}, "paris: cannot peer at present: its Liqo is missing or does not run"},
		"the requester is denied": {v1.Lending{Deny: []string{"rome", "milan"}}, "paris: does not lend to rome"},
		"others are allowed":      {v1.Lending{Allow: []string{"milan"}}, "paris: does not lend to rome"},
	}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.lends("paris", c.terms)
				_, err := f.RequestReservation(context.Background(), "rome", "request-1", request("2", "4Gi"))
				if fault.ReasonOf(err) != fault.NoCandidate || !strings.Contains(err.Error(), c.want) {
					t.Errorf("with paris alone: %v, want %q", err, c.want)
				}
				if strings.Contains(err.Error(), "milan") {
					t.Errorf("rome is told of others: %v", err)
				}
				f.advertise("berlin", "8", "16Gi")
				r := f.reserve("rome", "request-2", request("2", "4Gi"))
				if target(r) != "berlin" {
					t.Errorf("%s serves it", target(r))
				}
				f.kill()
				if r := f.reserve("rome", "request-3", request("2", "4Gi")); target(r) != "berlin" {
					t.Errorf("%s serves it after the broker came back", target(r))
				}
			})
		})
	}
}

func TestWaitingRequestIsServedOnceLendingAllowsIt(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.lends("paris", v1.Lending{Paused: true})
		r := f.reserve("rome", "request-1", waiting("2", "4Gi"))
		if r.Phase != v1.ReservationPhaseQueued {
			t.Fatalf("it is %s", r.Phase)
		}
		f.lends("paris", v1.Lending{})
		synctest.Wait()
		if r = f.get("rome", r.Name); r.Phase != v1.ReservationPhaseReserved {
			t.Errorf("it is %s once paris lends again: %s", r.Phase, r.Message)
		}
	})
}

func TestPlacementsStayWhereLendingIsPaused(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.lends("paris", v1.Lending{Paused: true})
		f.wantPlacements(r, "while paris pauses", untouched)
	})
}

func TestRefusalReasonIsKept(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.advertise("berlin", "8", "16Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		refusal := &v1.StatusReport{Placement: 1, Role: provider, State: v1.StatusReportStateRefused, Reason: "ConsumerDenied", Message: "does not lend to rome"}
		runtest.Check(t, f.ReportStatus(context.Background(), "berlin", r.Name, refusal))
		f.wantPlacements(r, "at once", "Reserved: berlin=Gone(ConsumerDenied) paris=Assigned")
	})
}

// A provider that refuses with a reason of the broker itself is excluded like any other.
func TestRefusalCannotHaveAReasonOfTheBroker(t *testing.T) {
	for _, reason := range []string{ledger.Preempted, ledger.ProviderLost, ledger.ProviderBack, ledger.Forgotten, ledger.Drained, "Lost"} {
		t.Run(reason, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "16", "64Gi")
				f.advertise("berlin", "8", "16Gi")
				r := f.reserve("rome", "request-1", request("2", "4Gi"))
				refusal := &v1.StatusReport{Placement: 1, Role: provider, State: v1.StatusReportStateRefused, Reason: reason}
				runtest.Check(t, f.ReportStatus(context.Background(), "berlin", r.Name, refusal))
				f.wantPlacements(r, "at once", "Reserved: berlin=Gone(Refused) paris=Assigned")
			})
		})
	}
}

// A provider cannot know where pods that were promised to others will start until they do. One that
// has promised nothing to others has no such excuse.
func TestRefusalOfPodsThatDoNotFitCountsOnlyWithoutOtherPlacements(t *testing.T) {
	inFleet(t, func(f *fleet) {
		for _, id := range []string{"rome", "paris", "berlin"} {
			f.advertise(id, "64", "256Gi")
		}
		refuse := func(id string) {
			for n := range 6 {
				q := request("1", "1Gi")
				q.TargetClusterID = id
				r := f.reserve("rome", fmt.Sprintf("request-%s-%d", id, n), q)
				refusal := &v1.StatusReport{Placement: 1, Role: provider, State: v1.StatusReportStateRefused, Reason: ledger.PodsDoNotFit, Message: "of 2 pods only 1 fits"}
				runtest.Check(t, f.ReportStatus(context.Background(), id, r.Name, refusal))
			}
		}
		other := request("1", "1Gi")
		other.TargetClusterID = "paris"
		f.carriedOut("berlin", f.reserve("berlin", "request-1", other))
		refuse("paris")
		refuse("berlin")
		for id, pauses := range map[string]bool{"paris": false, "berlin": true} {
			view, err := f.Cluster(context.Background(), id)
			if err != nil || pauses != (view.Standing != nil && view.Standing.PausedFor["rome"].Why != "") {
				t.Errorf("after 6 refusals the standing of %s is %+v, %v; want a pause for rome: %t", id, view.Standing, err, pauses)
			}
		}
	})
}
