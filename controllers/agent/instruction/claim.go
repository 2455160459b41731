package instruction

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// Claim reads an instruction into inst and adds the finalizer that keeps the object until its
// peering has been removed. It returns false if the instruction needs no work: it is in another
// namespace, does not exist, or was deleted before it got the finalizer.
func (q *Queue) Claim(ctx context.Context, req ctrl.Request, inst client.Object) (bool, error) {
	if req.Namespace != q.namespace {
		return false, nil
	}
	if err := q.client.Get(ctx, req.NamespacedName, inst); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	if controllerutil.ContainsFinalizer(inst, agentv1alpha1.PeeringFinalizer) {
		return true, nil
	}
	if inst.GetDeletionTimestamp() != nil {
		return false, nil
	}
	_, err := patch.AddFinalizer(ctx, q.client, inst, agentv1alpha1.PeeringFinalizer)
	return err == nil, err
}
