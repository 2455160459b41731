package reservations

import (
	"slices"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// TakeProviderReport processes the report of a provider about a placement.
func (rs *Reservations) TakeProviderReport(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	if report.Change != 0 {
		if report.State == v1.StatusReportStateAcknowledged || report.State == v1.StatusReportStateRefused {
			return rs.settleChange(r, p, report)
		}
		return errMisplaced(report)
	}
	switch report.State {
	case v1.StatusReportStateAcknowledged:
		if !p.AcknowledgedAt.IsZero() && r.Stands(p) {
			return nil
		}
		return rs.s.Record(ledger.Event{Change: &ledger.Acknowledge{PlacementRef: r.Ref(p)}})
	case v1.StatusReportStateProvisioning:
		if r.ProvisioningOf(p) != nil {
			return nil
		}
		return rs.s.Record(ledger.Event{Change: &ledger.Provision{PlacementRef: r.Ref(p)}})
	case v1.StatusReportStateRefused:
		return rs.takeRefusal(r, p, report)
	case v1.StatusReportStateGone:
		if p.ProviderGone {
			return nil
		}
		return rs.s.Record(ledger.Event{Change: &ledger.ProviderGone{PlacementRef: r.Ref(p)}})
	default:
		return errMisplaced(report)
	}
}

// takeRefusal gives up a placement that its provider refuses, and finds another provider. If the
// provider had not acknowledged the placement, it created nothing, so the capacity is free at
// once. Otherwise the provider must still report Gone.
func (rs *Reservations) takeRefusal(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	wasAcknowledged := !p.AcknowledgedAt.IsZero()
	if r.Stands(p) {
		reason := report.Reason
		if reason == "" || ledger.IsReserved(reason) {
			reason = string(v1.StatusReportStateRefused)
		}
		if err := rs.s.Record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: r.Ref(p), Reason: reason, Refused: true}}); err != nil {
			return err
		}
	}
	if !wasAcknowledged && !p.ProviderGone {
		if err := rs.s.Record(ledger.Event{Change: &ledger.ProviderGone{PlacementRef: r.Ref(p)}}); err != nil {
			return err
		}
	}
	if term.HasNoStandingPlacement(r) {
		failpoint.Hit(failpoint.BrokerWithdrawn)
		return rs.ReplacePlacement(r)
	}
	return nil
}

// TakeConsumerReport processes the report of a requester about a placement.
func (rs *Reservations) TakeConsumerReport(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	switch report.State {
	case v1.StatusReportStateReady, v1.StatusReportStateNotReady:
		ready := report.State == v1.StatusReportStateReady
		known := p.Ready == ready && (ready || !p.EverReady || p.IsUnready())
		if known && r.Stands(p) {
			return nil
		}
		return rs.s.Record(ledger.Event{Change: &ledger.NodeReady{PlacementRef: r.Ref(p), Ready: ready}})
	case v1.StatusReportStateConnecting:
		if !rs.s.Book().MayConnect(r, p, rs.s.Now()) {
			return nil // the usual deadline stays
		}
		return rs.s.Record(ledger.Event{Change: &ledger.Connect{PlacementRef: r.Ref(p)}})
	case v1.StatusReportStateVacant:
		return rs.s.ReleaseVacant(r, p)
	case v1.StatusReportStateRefused:
		return rs.takeConsumerRefusal(r, p, report)
	case v1.StatusReportStateGone:
		if p.ConsumerGone {
			return nil
		}
		return rs.s.Record(ledger.Event{Change: &ledger.ConsumerGone{PlacementRef: r.Ref(p)}})
	default:
		return errMisplaced(report)
	}
}

// Unreachable is the reason with which a requester gives up a placement because it cannot reach the
// provider.
const Unreachable = string(decision.Unreachable)

// Reasons of a requester for refusing the reservation itself, whatever the provider.
const (
	// Declined: the requester's operator accepts no reservations that were made in the broker's
	// cluster.
	Declined = "Refused"
	// Unusable: the requester's agent cannot carry out the instruction.
	Unusable = "Invalid"
)

// takeConsumerRefusal handles a requester's report that the node of a placement cannot become
// Ready. If the requester cannot reach the provider or refuses the provider's handshake, another
// provider is found. If the requester refuses the reservation itself, the reservation ends. If the
// node was Ready before, nothing changes, because its workloads keep running.
func (rs *Reservations) takeConsumerRefusal(r *ledger.Reservation, p *ledger.Placement, report *v1.StatusReport) error {
	if !slices.Contains([]string{Unreachable, ledger.HandshakeRefused, Declined, Unusable}, report.Reason) {
		return errMisplaced(report)
	}
	if !r.Stands(p) || p.EverReady {
		return nil
	}
	switch report.Reason {
	case Declined, Unusable:
		return rs.EndReservation(r, ledger.UserOf(r.Requester, ""), r.Requester+" refuses it: "+message.Clip(report.Message, message.MaxNote))
	case Unreachable:
		rs.s.ReportUnreachable(r.Requester, rs.s.Book().Cluster(p.Provider), report.Message)
	}
	return rs.WithdrawPlacement(r, p, report.Reason)
}

func errMisplaced(report *v1.StatusReport) error {
	return fault.New(fault.Invalid, "a %s does not report %s", report.Role, report.State)
}
