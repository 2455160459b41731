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
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Request describes the ResourceRequest that an instruction serves. It is zero for a Reservation
// that was made in the broker's cluster, which has no ResourceRequest.
type Request struct {
	Ref        *agentv1alpha1.RequestReference
	Namespaces []string
	// Offloading are the settings for offloading the namespaces; nil for the defaults.
	Offloading *agentv1alpha1.Offloading
}

// RequestOf returns the Request for a ResourceRequest. open are the namespaces that it may offload.
func RequestOf(rr *agentv1alpha1.ResourceRequest, open []string) Request {
	return Request{
		Ref:        &agentv1alpha1.RequestReference{Namespace: rr.Namespace, Name: rr.Name, UID: string(rr.UID)},
		Namespaces: open, Offloading: rr.Spec.Offloading,
	}
}

// Writer writes the objects for instructions about this cluster as consumer.
type Writer struct {
	Client    client.Client
	Namespace string
	// Receipts checks the broker's receipts; nil to keep none.
	Receipts *receipt.Checker
}

// WriteConsumer creates or updates the ReservationInstruction for an instruction of the broker, and
// returns it. If spec.release is already true, it stays true. WriteConsumer returns an error if the
// provider has changed: a placement at another provider must have another number, and therefore
// another object.
func (w Writer) WriteConsumer(
	ctx context.Context, in *v1.Instruction, request Request, received time.Time,
) (*agentv1alpha1.ReservationInstruction, error) {
	spec, err := wire.ToReservationInstruction(in, received)
	if err != nil {
		return nil, wrapUnusable(err)
	}
	spec.RequestRef, spec.Namespaces, spec.Offloading = request.Ref, request.Namespaces, request.Offloading
	name := brokerv1alpha1.PlacementName(in.Reservation, in.Placement)

	obj := &agentv1alpha1.ReservationInstruction{}
	err = w.Client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		spec.Receipt, spec.ReceiptProblem = chooseReceipt(ctx, w.Receipts, in, nil, received)
		obj = &agentv1alpha1.ReservationInstruction{ObjectMeta: metaOf(w.Namespace, name, in.Reservation), Spec: spec}
		if err := w.Client.Create(ctx, obj); err != nil {
			return nil, wrapWriteError(name, err)
		}
		return obj, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read reservation instruction %q: %w", name, err)
	}
	if obj.Spec.TargetClusterID != spec.TargetClusterID {
		return nil, wrapUnusable(fmt.Errorf("reservation instruction %q is for provider %q and cannot become one for %q",
			name, obj.Spec.TargetClusterID, spec.TargetClusterID))
	}
	before := obj.DeepCopy()
	release := obj.Spec.Release || spec.Release
	if spec.RequestRef == nil {
		// The broker's instruction names no request: keep the request that the object names, with its
		// namespaces.
		spec.RequestRef, spec.Namespaces, spec.Offloading = obj.Spec.RequestRef, obj.Spec.Namespaces, obj.Spec.Offloading
	}
	spec.ExpiresAt = KeepExpiry(obj.Spec.ExpiresAt, spec.ExpiresAt)
	spec.ConnectBy = KeepExpiry(obj.Spec.ConnectBy, spec.ConnectBy)
	spec.ProvisionBy = KeepExpiry(obj.Spec.ProvisionBy, spec.ProvisionBy)
	spec.MoveAt = KeepExpiry(obj.Spec.MoveAt, spec.MoveAt)
	spec.ProviderSilentSince = KeepExpiry(obj.Spec.ProviderSilentSince, spec.ProviderSilentSince)
	if old := obj.Spec.Notice; old != nil && spec.Notice != nil {
		spec.Notice.EndsAt = *KeepExpiry(&old.EndsAt, &spec.Notice.EndsAt)
	}
	if old := obj.Spec.Idle; old != nil && spec.Idle != nil {
		spec.Idle.Since = *KeepExpiry(&old.Since, &spec.Idle.Since)
		spec.Idle.ReleaseAt = KeepExpiry(old.ReleaseAt, spec.Idle.ReleaseAt)
	}
	spec.Receipt, spec.ReceiptProblem = chooseReceipt(ctx, w.Receipts, in, obj.Spec.Receipt, received)
	obj.Spec, obj.Spec.Release = spec, release
	return obj, patchSpec(ctx, w.Client, obj, before, obj.Spec, before.Spec)
}

// EndConsumer releases a ReservationInstruction after the broker has ended its placement with an
// instruction. It also stores the receipt that chooseReceipt returns for that instruction.
func EndConsumer(ctx context.Context, c client.Client, obj *agentv1alpha1.ReservationInstruction, in *v1.Instruction, receipts *receipt.Checker, received time.Time) error {
	before := obj.DeepCopy()
	obj.Spec.Release = true
	obj.Spec.Receipt, obj.Spec.ReceiptProblem = chooseReceipt(ctx, receipts, in, obj.Spec.Receipt, received)
	return patchSpec(ctx, c, obj, before, obj.Spec, before.Spec)
}

// WithdrawConsumer releases a ReservationInstruction, for the given reason if the broker gave it up.
// It does nothing if the object no longer exists.
func WithdrawConsumer(ctx context.Context, c client.Client, obj *agentv1alpha1.ReservationInstruction, reason string) error {
	before := obj.DeepCopy()
	obj.Spec.Release = true
	if reason != "" {
		obj.Spec.Reason = reason
	}
	return patchSpec(ctx, c, obj, before, obj.Spec, before.Spec)
}
