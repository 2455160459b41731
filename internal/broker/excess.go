package broker

import (
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// maxExcessResources is how many resources a report of excess may name.
	maxExcessResources = ledger.MaxExcess
	// maxExcessPods is how many evicted pods a report may count.
	maxExcessPods = 1_000_000
)

// excessOf reads the excess of a status report, nil without any. It returns an error
// where the report may not carry one, or where a figure is out of bounds.
func excessOf(report *v1.StatusReport) (quantity.Amounts, error) {
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

// excessDue marks an entry of deadlines that speaks of a placement's excess.
const excessDue = "excess/"

// excessEvery is how often the excess of one placement is written down at most.
const excessEvery = time.Minute

// exceeded takes a report of excess in. Of several in a minute the last figures count.
func (t *term) exceeded(r *ledger.Reservation, p *ledger.Placement, pods int32, amounts quantity.Amounts) error {
	if p.ProviderGone || !p.Excess.Grows(pods, amounts) {
		return nil
	}
	name := ledger.PlacementName(r.Name, p.Number)
	e := &ledger.Exceed{PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Pods: pods, Amounts: amounts}
	if p.Excess != nil && t.now().Sub(p.Excess.At) < excessEvery {
		if known := t.exceeding[name]; known != nil {
			e.Pods, e.Amounts = max(e.Pods, known.Pods), e.Amounts.Max(known.Amounts)
		}
		t.exceeding[name] = e
		t.due.set(excessDue+name, p.Excess.At.Add(excessEvery))
		return nil
	}
	return t.recordExcess(e)
}

func (t *term) recordExcess(e *ledger.Exceed) error {
	r := t.state.Reservation(e.Name)
	provider := r.Placement(e.Placement).Provider
	if err := t.record(ledger.Event{Change: e}); err != nil {
		return err
	}
	t.b.opts.Log.Info("requester ran more than it was granted", "reservation", e.Name, "placement", e.Placement, "requester", r.Requester,
		"provider", provider, "evictedPods", e.Pods, "excess", describe(e.Amounts))
	return nil
}

// expireExcess writes down what was reported within a minute of an earlier report.
func (t *term) expireExcess(name string) {
	e := t.exceeding[name]
	delete(t.exceeding, name)
	if e == nil {
		return
	}
	r := t.state.Reservation(e.Name)
	if r == nil {
		return
	}
	if p := r.Placement(e.Placement); p == nil || p.ProviderGone || !p.Excess.Grows(e.Pods, e.Amounts) {
		return
	}
	if err := t.recordExcess(e); err != nil {
		t.b.opts.Log.Error(err, "an excess could not be written down; it is lost unless it is reported again", "placement", name)
	}
}

// excessMessage tells the requester what its provider took down, "" for nothing.
func excessMessage(p *ledger.Placement) string {
	if p.Excess == nil {
		return ""
	}
	return fmt.Sprintf("; %s evicted %d pods that exceeded the grant by %s: run no more than is granted, or ask for more",
		p.Provider, p.Excess.Pods, describe(p.Excess.Amounts))
}
