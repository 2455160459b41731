package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/excess"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// ReportStatus implements the server's Broker. It changes nothing if the reported state is known
// already.
func (b *Broker) ReportStatus(ctx context.Context, clusterID, reservation string, report *v1.StatusReport) error {
	excess, err := excess.Read(report)
	if err != nil {
		return err
	}
	err = b.commitPlanFor(ctx, clusterID, func(s *session) error {
		r := s.book.Reservation(reservation)
		if r == nil {
			return errNoPlacement(clusterID, reservation, report)
		}
		p := r.Placement(report.Placement)
		if p == nil || clusterID != reporterOf(r, p, report.Role) {
			return errNoPlacement(clusterID, reservation, report)
		}
		if report.Role == v1.StatusReportRoleProvider {
			if report.Excess != nil {
				if err := s.Excesses.ProcessReport(r, p, report.Excess.Pods, excess); err != nil {
					return term.FaultOf(err)
				}
			}
			return term.FaultOf(s.TakeProviderReport(r, p, report))
		}
		return term.FaultOf(s.TakeConsumerReport(r, p, report))
	})
	if err == nil {
		failpoint.Hit(failpoint.BrokerReported)
	}
	return err
}

func reporterOf(r *ledger.Reservation, p *ledger.Placement, role v1.StatusReportRole) string {
	if role == v1.StatusReportRoleProvider {
		return p.Provider
	}
	return r.Requester
}

func errNoPlacement(clusterID, reservation string, report *v1.StatusReport) error {
	return fault.New(fault.NotFound, "cluster %q is not the %s of placement %d of reservation %q", clusterID, report.Role, report.Placement, reservation)
}
