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
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxReport is the longest message, in bytes, that the broker accepts in a report.
const maxReport = 1024

// Reports sends reports about placements until the broker has received them. Role is this cluster's
// role in all of them: provider or consumer.
type Reports struct {
	Outbox   *Outbox
	Reporter transport.StatusReporter
	Role     v1.StatusReportRole
	Log      logr.Logger
}

// ReportState reports a state, unless the latest report about the placement has the same state. It calls
// taken when the broker has received the report.
func (r *Reports) ReportState(reservation string, placement int32, state v1.StatusReportState, reason, text string, taken func()) {
	r.postState(reservation, &v1.StatusReport{
		Placement: placement, Role: r.Role, State: state, Reason: reason, Message: message.Clip(text, maxReport),
	}, string(state), taken)
}

// ReportAnswer reports this cluster's answer to a change of a placement's amounts. It does nothing if the
// latest report about the placement is the same answer to the same change.
func (r *Reports) ReportAnswer(reservation string, placement int32, change int64, state v1.StatusReportState, why placement.Aspect, taken func()) {
	r.postState(reservation, &v1.StatusReport{
		Placement: placement, Role: r.Role, State: state, Change: change, Reason: why.Reason, Message: message.Clip(why.Message, maxReport),
	}, fmt.Sprintf("%s/%d", state, change), taken)
}

// ReportExcess reports that a consumer's pods exceeded their grant. Another call with the same version
// sends nothing. The report does not replace the report of the placement's state.
func (r *Reports) ReportExcess(reservation string, placement int32, excess *v1.Excess, version string) {
	report := &v1.StatusReport{
		Placement: placement, Role: r.Role, State: v1.StatusReportStateAcknowledged, Reason: agentv1alpha1.ReasonExceedsGrant, Excess: excess,
	}
	r.postReport(excessKey(r.keyOf(reservation, placement)), reservation, report, version, nil)
}

// ReportVacant reports that no pod is on a placement's virtual node and that none can come. Another call with the same
// version sends nothing. The report does not replace the report of the placement's state.
func (r *Reports) ReportVacant(reservation string, placement int32, version string) {
	report := &v1.StatusReport{Placement: placement, Role: r.Role, State: v1.StatusReportStateVacant, Reason: agentv1alpha1.ReasonIdle}
	r.postReport(vacantKey(r.keyOf(reservation, placement)), reservation, report, version, nil)
}

// CancelVacant stops sending a report of ReportVacant that the broker has not received. A later ReportVacant sends a new
// report.
func (r *Reports) CancelVacant(reservation string, placement int32) {
	r.Outbox.Drop(vacantKey(r.keyOf(reservation, placement)))
}

func vacantKey(report string) string { return report + "/vacant" }

func excessKey(report string) string { return report + "/excess" }

func (r *Reports) postState(reservation string, report *v1.StatusReport, version string, taken func()) {
	r.postReport(r.keyOf(reservation, report.Placement), reservation, report, version, taken)
}

func (r *Reports) postReport(key, reservation string, report *v1.StatusReport, version string, taken func()) {
	r.Outbox.Post(key, version, func(ctx context.Context) error {
		return r.acceptRefusal(reservation, report, r.Reporter.ReportStatus(ctx, reservation, report))
	}, taken)
}

// IsReceived reports whether the latest report about a placement has the given state and the broker has received this
// report.
func (r *Reports) IsReceived(reservation string, placement int32, state v1.StatusReportState) bool {
	return r.Outbox.Taken(r.keyOf(reservation, placement), string(state))
}

// Forget drops all reports about a placement.
func (r *Reports) Forget(reservation string, placement int32) {
	key := r.keyOf(reservation, placement)
	r.Outbox.Drop(key)
	r.Outbox.Drop(excessKey(key))
	r.Outbox.Drop(vacantKey(key))
}

func (r *Reports) keyOf(reservation string, number int32) string {
	return "report/" + string(r.Role) + "/" + brokerv1alpha1.PlacementName(reservation, number)
}

// acceptRefusal returns nil for a refusal that would also follow a repetition of the report, for
// example because the broker no longer has the placement. It returns all other errors, so that the
// report is sent again. One of them is the refusal of all calls of this cluster: the broker has
// then not read the report.
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
