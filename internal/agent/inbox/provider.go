package inbox

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// writeProvider creates or updates the ProviderInstruction for an instruction of the broker. If the
// broker wants an unknown placement released, it creates the object anyway: the controller then
// checks that nothing is left, and reports that. If the broker's instruction has the state Ended,
// writeProvider does not create a missing object. This cluster, not the broker, chooses spec.hold.
func writeProvider(ctx context.Context, c client.Client, o *Options, in *v1.Instruction, received time.Time) error {
	spec, err := wire.ToProviderInstruction(in, received)
	if err != nil {
		return wrapUnusable(err)
	}
	spec.Hold = o.Hold
	namespace, name := o.Namespace, brokerv1alpha1.PlacementName(in.Reservation, in.Placement)

	obj := &agentv1alpha1.ProviderInstruction{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		if in.State == v1.InstructionStateEnded {
			return nil
		}
		spec.Receipt, spec.ReceiptProblem = chooseReceipt(ctx, o.Receipts, in, nil, received)
		obj = &agentv1alpha1.ProviderInstruction{ObjectMeta: metaOf(namespace, name, in.Reservation), Spec: spec}
		if err := c.Create(ctx, obj); err != nil {
			return wrapWriteError(name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("read provider instruction %q: %w", name, err)
	}
	if obj.Spec.RequesterClusterID != spec.RequesterClusterID {
		return wrapUnusable(fmt.Errorf("provider instruction %q is for requester %q and cannot become one for %q",
			name, obj.Spec.RequesterClusterID, spec.RequesterClusterID))
	}
	before := obj.DeepCopy()
	// The broker's requirements for a placement never change. A broker that was restored from an older
	// state may not know them until the consumer repeats its request. Until then, keep the
	// requirements in the object, because the pods must stay on nodes that meet them.
	if len(spec.NodeSelector) == 0 {
		spec.NodeSelector = obj.Spec.NodeSelector
	}
	if len(spec.Tolerations) == 0 {
		spec.Tolerations = obj.Spec.Tolerations
	}
	spec.Release = spec.Release || obj.Spec.Release
	spec.Unpeer = spec.Unpeer || obj.Spec.Unpeer
	spec.ExpiresAt = KeepExpiry(obj.Spec.ExpiresAt, spec.ExpiresAt)
	spec.Receipt, spec.ReceiptProblem = chooseReceipt(ctx, o.Receipts, in, obj.Spec.Receipt, received)
	obj.Spec = spec
	return patchSpec(ctx, c, obj, before, obj.Spec, before.Spec)
}
