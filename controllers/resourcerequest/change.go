package resourcerequest

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// change has the broker change a reservation whose request was edited: it has told that
// it knows the request as another one. What it refuses to change goes on as before.
func (r *Reconciler) change(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor) (*v1.Reservation, time.Duration) {
	body := &v1.ReservationChange{
		Generation: rr.Generation, DurationSeconds: wire.ReservationRequest(rr, r.options.ClusterID).DurationSeconds,
	}
	answer, err := r.broker.ChangeReservation(ctx, keyOf(rr), body)
	no, considered := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return r.answered(rr, answer, status)
	case considered && (no.Reason == fault.Invalid || no.Reason == fault.Conflict):
		status.changeRefused(no)
		r.retries.Reset(string(rr.UID))
		return nil, r.lease(rr, &v1.Reservation{RenewSeconds: refusedRenewal.Seconds()})
	default:
		return nil, r.refused(rr, err, status)
	}
}

// refusedRenewal is how often the broker is told, while it refuses an edit, that the
// reservation is wanted as it is.
const refusedRenewal = time.Hour

// agreed: the broker knows the request as it stands. The first generation is what was
// asked for, any other an edit.
func (e editor) agreed() {
	if e.rr.Generation <= 1 {
		return
	}
	e.set(agentv1alpha1.ConditionChanged, metav1.ConditionTrue, agentv1alpha1.ReasonChanged, "the broker holds it for as long as spec.duration says")
}

// changeRefused: what was agreed before the edit holds.
func (e editor) changeRefused(no *fault.Error) {
	e.set(agentv1alpha1.ConditionChanged, metav1.ConditionFalse, agentv1alpha1.ReasonChangeRefused, "what was agreed before holds: "+no.Detail)
}
