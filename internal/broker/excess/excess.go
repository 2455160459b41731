// Package excess records by how much requesters exceeded their grants.
package excess

import (
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// maxExcessResources is how many resources a report of an excess may name.
	maxExcessResources = ledger.MaxExcess
	// maxExcessPods is the largest number of evicted pods that a report may contain.
	maxExcessPods = 1_000_000
)

// Read returns the amounts of the excess in a status report, nil if there is none. It returns
// an error if a report of this kind must not contain an excess, or if a value is out of bounds.
func Read(report *v1.StatusReport) (quantity.Amounts, error) {
	excess := report.Excess
	if excess == nil {
		return nil, nil
	}
	if report.Role != v1.StatusReportRoleProvider || report.State != v1.StatusReportStateAcknowledged || report.Change != 0 {
		return nil, fault.New(fault.Invalid, "excess: a %s that reports %s cannot report it: only a provider can, with state %s and without change",
			report.Role, report.State, v1.StatusReportStateAcknowledged)
	}
	if excess.Pods < 0 || excess.Pods > maxExcessPods {
		return nil, fault.New(fault.Invalid, "excess.pods: %d is not between 0 and %d", excess.Pods, maxExcessPods)
	}
	if n := len(excess.Resources); n > maxExcessResources {
		return nil, fault.New(fault.Invalid, "excess.resources: %d resources are named: at most %d are accepted", n, maxExcessResources)
	}
	amounts, err := wire.ToAmounts(excess.Resources)
	if err != nil {
		return nil, fault.New(fault.Invalid, "excess.resources: %v", err)
	}
	return amounts, nil
}

// Due is the prefix of the names of the deadlines at which the delayed reports of a placement are
// recorded.
const Due = "excess/"

// Every is the least time between two recorded reports about one placement.
const Every = time.Minute

// Excesses records the reports of providers.
type Excesses struct {
	s term.Term
	// delayed has the reports that came within Every of the last recorded report, combined
	// for each placement.
	delayed map[string]*ledger.Exceed
}

// New returns Excesses without delayed reports.
func New(s term.Term) *Excesses { return &Excesses{s, map[string]*ledger.Exceed{}} }

// ProcessReport processes a provider's report of an excess. It collects the reports that come
// within Every of the last recorded report, and records them together afterwards.
func (x *Excesses) ProcessReport(r *ledger.Reservation, p *ledger.Placement, pods int32, amounts quantity.Amounts) error {
	if p.ProviderGone || !p.Excess.Grows(pods, amounts) {
		return nil
	}
	name := brokerv1alpha1.PlacementName(r.Name, p.Number)
	e := &ledger.Exceed{PlacementRef: r.Ref(p), Pods: pods, Amounts: amounts}
	if p.Excess != nil && x.s.Now().Sub(p.Excess.At) < Every {
		if known := x.delayed[name]; known != nil {
			e.Pods, e.Amounts = max(e.Pods, known.Pods), e.Amounts.Max(known.Amounts)
		}
		x.delayed[name] = e
		x.s.SetDeadline(Due+name, p.Excess.At.Add(Every))
		return nil
	}
	return x.recordExcess(e)
}

func (x *Excesses) recordExcess(e *ledger.Exceed) error {
	r := x.s.Book().Reservation(e.Name)
	provider := r.Placement(e.Placement).Provider
	if err := x.s.Record(ledger.Event{Change: e}); err != nil {
		return err
	}
	x.s.Log().Info("requester ran more than it was granted", "reservation", e.Name, "placement", e.Placement, "requester", r.Requester,
		"provider", provider, "evictedPods", e.Pods, "excess", e.Amounts.Describe())
	return nil
}

// RecordDelayed records the delayed reports about a placement.
func (x *Excesses) RecordDelayed(name string) {
	e := x.delayed[name]
	delete(x.delayed, name)
	if e == nil {
		return
	}
	r := x.s.Book().Reservation(e.Name)
	if r == nil {
		return
	}
	if p := r.Placement(e.Placement); p == nil || p.ProviderGone || !p.Excess.Grows(e.Pods, e.Amounts) {
		return
	}
	if err := x.recordExcess(e); err != nil {
		x.s.Log().Error(err, "recording an excess failed; it is lost unless it is reported again", "placement", name)
	}
}
