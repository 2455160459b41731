package resourcerequest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/actor"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// requestChange asks the broker to change the reservation of an edited request. It is called when
// the broker rejects the idempotency key because the contents of the request have changed. If the
// broker refuses the change, the reservation stays as it is.
func (r *Reconciler) requestChange(ctx context.Context, rr *agentv1alpha1.ResourceRequest, status editor) (*v1.Reservation, time.Duration) {
	if errs, err := r.outsideBounds(ctx, rr); err != nil {
		return nil, r.handleError(rr, err, status)
	} else if len(errs) > 0 {
		status.changeRefused(errs.ToAggregate().Error())
		return nil, r.recordRenewal(rr, &v1.Reservation{RenewSeconds: refusedRenewal.Seconds()})
	}
	asked := wire.ReservationRequest(rr, r.options.ClusterID)
	body := &v1.ReservationChange{Generation: rr.Generation, DurationSeconds: asked.DurationSeconds, Resources: asked.Resources, Actor: r.options.reported(actor.Author(rr))}
	answer, err := r.broker.ChangeReservation(ctx, rr.IdempotencyKey(), body)
	no, considered := errors.AsType[*fault.Error](err)
	switch {
	case err == nil:
		return r.showAnswer(rr, answer, status)
	case considered && (no.Reason == fault.Invalid || no.Reason == fault.Conflict):
		status.changeRefused(no.Detail)
		r.retries.Reset(string(rr.UID))
		return nil, r.recordRenewal(rr, &v1.Reservation{RenewSeconds: refusedRenewal.Seconds()})
	case considered && no.Reason == fault.Awaiting:
		status.setChanging(no.Detail)
		return nil, r.recordRenewal(rr, &v1.Reservation{RenewSeconds: no.RetryAfter.Seconds()})
	default:
		return nil, r.handleError(rr, err, status)
	}
}

// refusedRenewal is how often the reservation is renewed after the broker has refused an edit. Each
// renewal asks for the edit again.
const refusedRenewal = time.Hour

// setAgreed records whether the reservation matches the edited request. A request that was never
// edited (generation 1) gets no condition Changed.
func (e editor) setAgreed(c *v1.ChangeState) {
	switch {
	case e.rr.Generation <= 1:
	case c != nil && c.State == v1.ChangeStateStatePending:
		e.setChanging(c.Message)
	default:
		e.setCondition(agentv1alpha1.ConditionChanged, metav1.ConditionTrue, agentv1alpha1.ReasonChanged, "the amounts in spec are reserved, for the duration in spec")
	}
}

func (e editor) setChanging(why string) {
	e.setCondition(agentv1alpha1.ConditionChanged, metav1.ConditionUnknown, agentv1alpha1.ReasonAwaitingProvider,
		e.describeChange()+" is not in force yet: "+why)
}

func (e editor) changeRefused(why string) {
	e.setCondition(agentv1alpha1.ConditionChanged, metav1.ConditionFalse, agentv1alpha1.ReasonChangeRefused, e.describeChange()+" was refused: "+why)
}

func (e editor) describeChange() string {
	asked := corev1.ResourceList{}
	maps.Copy(asked, e.rr.Spec.Resources)
	if e.rr.Spec.CPU != nil {
		asked[corev1.ResourceCPU] = *e.rr.Spec.CPU
	}
	if e.rr.Spec.Memory != nil {
		asked[corev1.ResourceMemory] = *e.rr.Spec.Memory
	}
	text := "the change"
	if e.rr.Status.Granted == nil {
		return text
	}
	joint := " to "
	for _, name := range slices.Sorted(maps.Keys(asked)) {
		if q := asked[name]; q.Cmp(e.rr.Status.Granted.Resources[name]) != 0 {
			text += fmt.Sprintf("%s%s=%s", joint, name, q.String())
			joint = " "
		}
	}
	return text
}
