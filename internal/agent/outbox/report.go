package outbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/placement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxReport is the broker API's limit for the message of a report.
const maxReport = 1024

// StatusReporter reports this cluster's progress with a placement to the broker.
type StatusReporter interface {
	ReportStatus(ctx context.Context, reservation string, report *v1.StatusReport) error
}

// Reports sends reports on placements, in one role, until the broker has received them.
type Reports struct {
	Outbox   *Outbox
	Reporter StatusReporter
	Role     v1.StatusReportRole
	Log      logr.Logger
}

// Say reports a state once. taken is called when the broker has the report.
func (r *Reports) Say(reservation string, placement int32, state v1.StatusReportState, reason, text string, taken func()) {
	r.postReport(reservation, &v1.StatusReport{
		Placement: placement, Role: r.Role, State: state, Reason: reason, Message: message.Clip(text, maxReport),
	}, string(state), taken)
}

// Answer reports the answer to a change of resources once.
func (r *Reports) Answer(reservation string, placement int32, change int64, state v1.StatusReportState, why placement.Aspect, taken func()) {
	r.postReport(reservation, &v1.StatusReport{
		Placement: placement, Role: r.Role, State: state, Change: change, Reason: why.Reason, Message: message.Clip(why.Message, maxReport),
	}, fmt.Sprintf("%s/%d", state, change), taken)
}

// SayExcess reports, once for each version, that a consumer's pods exceeded their grant. It
// does not replace the report of the placement's state.
func (r *Reports) SayExcess(reservation string, placement int32, excess *v1.Excess, version string) {
	report := &v1.StatusReport{
		Placement: placement, Role: r.Role, State: v1.StatusReportStateAcknowledged, Reason: agentv1alpha1.ReasonExceedsGrant, Excess: excess,
	}
	send := func(ctx context.Context) error {
		return r.acceptRefusal(reservation, report, r.Reporter.ReportStatus(ctx, reservation, report))
	}
	r.Outbox.Post(excessKey(r.keyOf(reservation, placement)), version, send, nil)
}

func excessKey(report string) string { return report + "/excess" }

func (r *Reports) postReport(reservation string, report *v1.StatusReport, version string, taken func()) {
	send := func(ctx context.Context) error {
		return r.acceptRefusal(reservation, report, r.Reporter.ReportStatus(ctx, reservation, report))
	}
	r.Outbox.Post(r.keyOf(reservation, report.Placement), version, send, taken)
}

// Heard reports whether the broker has received the state.
func (r *Reports) Heard(reservation string, placement int32, state v1.StatusReportState) bool {
	return r.Outbox.Taken(r.keyOf(reservation, placement), string(state))
}

// Forget drops all reports on a placement.
func (r *Reports) Forget(reservation string, placement int32) {
	key := r.keyOf(reservation, placement)
	r.Outbox.Drop(key)
	r.Outbox.Drop(excessKey(key))
}

func (r *Reports) keyOf(reservation string, number int32) string {
	return "report/" + string(r.Role) + "/" + brokerv1alpha1.PlacementName(reservation, number)
}

// acceptRefusal treats a considered refusal as delivery: the broker has the placement in another
// state, or no longer has it, and a repetition gets the same answer. A broker that refuses this
// cluster has not read the report, so the report is repeated.
func (r *Reports) acceptRefusal(reservation string, report *v1.StatusReport, err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*fault.Error](err); ok && !answer.Temporary() && !answer.OfCaller() {
		r.Log.Info("broker refused a report", "reservation", reservation, "placement", report.Placement, "state", report.State, "reason", err.Error())
		return nil
	}
	r.Log.V(1).Info("report not accepted, retrying", "reservation", reservation, "placement", report.Placement, "state", report.State, "error", err.Error())
	return err
}
