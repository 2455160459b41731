package broker

import (
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

const (
	// maxExcessResources is how many resources a report of excess may name.
	maxExcessResources = 16
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
