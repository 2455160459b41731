package broker

import (
	"context"
	"strings"
	"testing"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestRefusalByRequesterEndsReservation(t *testing.T) {
	for _, reason := range []string{declined, unusable} {
		t.Run(reason, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("rome", "1", "1Gi")
				f.advertise("paris", "16", "64Gi")
				f.advertise("berlin", "16", "64Gi")
				r := f.reserve("rome", "request-1", request("2", "4Gi"))
				provider := target(r)
				err := f.ReportStatus(context.Background(), "rome", r.Name, &v1.StatusReport{
					Placement: 1, Role: consumer, State: v1.StatusReportStateRefused, Reason: reason, Message: "not here",
				})
				runtest.Check(t, err)
				view, err := f.Reservation(context.Background(), r.Name)
				runtest.Check(t, err)
				if view.EndReason != ledger.EndReleased || !strings.Contains(view.EndMessage, "rome refuses it: not here") || len(view.Placements) != 1 {
					t.Errorf("it ended for %q, %q, with %d placements", view.EndReason, view.EndMessage, len(view.Placements))
				}
				f.mustReport("rome", r, 1, consumer, v1.StatusReportStateGone)
				f.mustReport(provider, r, 1, v1.StatusReportRoleProvider, v1.StatusReportStateGone)
				if got := f.available(provider); !strings.Contains(got, "16") {
					t.Errorf("%s has %s free, want everything", provider, got)
				}
			})
		})
	}
}

func TestRequesterCannotRefuseServedPlacement(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		err := f.ReportStatus(context.Background(), "rome", r.Name, &v1.StatusReport{
			Placement: 1, Role: consumer, State: v1.StatusReportStateRefused, Reason: declined,
		})
		if got := f.get("rome", r.Name); err != nil || got.EndReason != "" {
			t.Errorf("%v, ended for %q; want that it stays", err, got.EndReason)
		}
	})
}
