package broker

import (
	"context"
	"slices"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/excess"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
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
					return faultOf(err)
				}
			}
			return faultOf(s.takeProviderReport(r, p, report))
		}
		return faultOf(s.takeConsumerReport(r, p, report))
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

func (s *session) takeProviderReport(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	ref := ledger.PlacementRef{Name: r.Name, Placement: p.Number}
	if report.Change != 0 {
		if report.State == v1.StatusReportStateAcknowledged || report.State == v1.StatusReportStateRefused {
			return s.settleChange(r, p, report)
		}
		return errMisplaced(report)
	}
	switch report.State {
	case v1.StatusReportStateAcknowledged:
		if !p.AcknowledgedAt.IsZero() && r.Stands(p) {
			return nil
		}
		return s.Record(ledger.Event{Change: &ledger.Acknowledge{PlacementRef: ref}})
	case v1.StatusReportStateRefused:
		return s.takeRefusal(r, p, report)
	case v1.StatusReportStateGone:
		if p.ProviderGone {
			return nil
		}
		return s.Record(ledger.Event{Change: &ledger.ProviderGone{PlacementRef: ref}})
	default:
		return errMisplaced(report)
	}
}

// takeRefusal gives up a placement that its provider refuses, and finds another provider. If the
// provider had not acknowledged the placement, it created nothing, so the capacity is free at
// once. Otherwise the provider must still report Gone.
func (s *session) takeRefusal(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	ref := ledger.PlacementRef{Name: r.Name, Placement: p.Number}
	wasAcknowledged := !p.AcknowledgedAt.IsZero()
	if r.Stands(p) {
		reason := report.Reason
		if reason == "" {
			reason = string(v1.StatusReportStateRefused)
		}
		if err := s.Record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: ref, Reason: reason, Refused: true}}); err != nil {
			return err
		}
	}
	if !wasAcknowledged && !p.ProviderGone {
		if err := s.Record(ledger.Event{Change: &ledger.ProviderGone{PlacementRef: ref}}); err != nil {
			return err
		}
	}
	if hasNoStandingPlacement(r) {
		failpoint.Hit(failpoint.BrokerWithdrawn)
		return s.replacePlacement(r)
	}
	return nil
}

func (s *session) takeConsumerReport(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	ref := ledger.PlacementRef{Name: r.Name, Placement: p.Number}
	switch report.State {
	case v1.StatusReportStateReady, v1.StatusReportStateNotReady:
		ready := report.State == v1.StatusReportStateReady
		known := p.Ready == ready && (ready || !p.EverReady || p.IsUnready())
		if known && r.Stands(p) {
			return nil
		}
		return s.Record(ledger.Event{Change: &ledger.NodeReady{PlacementRef: ref, Ready: ready}})
	case v1.StatusReportStateConnecting:
		if !s.book.MayConnect(r, p, s.Now()) {
			return nil // the usual deadline stays
		}
		return s.Record(ledger.Event{Change: &ledger.Connect{PlacementRef: ref}})
	case v1.StatusReportStateVacant:
		return s.Idles.ReleaseVacant(r, p)
	case v1.StatusReportStateRefused:
		return s.takeConsumerRefusal(r, p, report)
	case v1.StatusReportStateGone:
		if p.ConsumerGone {
			return nil
		}
		return s.Record(ledger.Event{Change: &ledger.ConsumerGone{PlacementRef: ref}})
	default:
		return errMisplaced(report)
	}
}

// unreachable is the reason with which a requester gives up a placement because it cannot reach the
// provider.
const unreachable = string(decision.Unreachable)

// Reasons of a requester for refusing the reservation itself, whatever the provider.
const (
	// declined: the requester's operator accepts no reservations that were made in the broker's
	// cluster.
	declined = "Refused"
	// unusable: the requester's agent cannot carry out the instruction.
	unusable = "Invalid"
)

// takeConsumerRefusal handles a requester's report that the node of a placement cannot become
// Ready. If the requester cannot reach the provider or refuses the provider's handshake, another
// provider is found. If the requester refuses the reservation itself, the reservation ends. If the
// node was Ready before, nothing changes, because its workloads keep running.
func (s *session) takeConsumerRefusal(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	if !slices.Contains([]string{unreachable, ledger.HandshakeRefused, declined, unusable}, report.Reason) {
		return errMisplaced(report)
	}
	if !r.Stands(p) || p.EverReady {
		return nil
	}
	switch report.Reason {
	case declined, unusable:
		return s.EndReservation(r, ledger.UserOf(r.Requester, ""), r.Requester+" refuses it: "+message.Clip(report.Message, message.MaxNote))
	case unreachable:
		s.Links.ReportUnreachable(r.Requester, s.book.Cluster(p.Provider), report.Message)
	}
	return s.withdrawPlacement(r, p, report.Reason)
}

func errMisplaced(report *v1.StatusReport) error {
	return fault.New(fault.Invalid, "a %s does not report %s", report.Role, report.State)
}
