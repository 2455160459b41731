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

// Request is the ResourceRequest that an instruction serves, with the namespaces that are open
// to it. The zero value is a Reservation made in the broker cluster.
type Request struct {
	Ref        *agentv1alpha1.RequestReference
	Namespaces []string
	// Offloading is how the namespaces are offloaded; nil for the defaults.
	Offloading *agentv1alpha1.Offloading
}

// RequestOf converts a ResourceRequest to a Request.
func RequestOf(rr *agentv1alpha1.ResourceRequest, open []string) Request {
	return Request{
		Ref:        &agentv1alpha1.RequestReference{Namespace: rr.Namespace, Name: rr.Name, UID: string(rr.UID)},
		Namespaces: open, Offloading: rr.Spec.Offloading,
	}
}

// WriteConsumer creates or updates the ReservationInstruction of an instruction in namespace,
// and returns the result. A released instruction stays released. The provider never changes:
// another provider means another placement.
func WriteConsumer(
	ctx context.Context, c client.Client, namespace string, in *v1.Instruction, request Request, received time.Time,
) (*agentv1alpha1.ReservationInstruction, error) {
	spec, err := wire.ToReservationInstruction(in, received)
	if err != nil {
		return nil, wrapUnusable(err)
	}
	spec.RequestRef, spec.Namespaces, spec.Offloading = request.Ref, request.Namespaces, request.Offloading
	name := brokerv1alpha1.PlacementName(in.Reservation, in.Placement)

	obj := &agentv1alpha1.ReservationInstruction{}
	err = c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, obj)
	if apierrors.IsNotFound(err) {
		obj = &agentv1alpha1.ReservationInstruction{ObjectMeta: metaOf(namespace, name, in.Reservation), Spec: spec}
		if err := c.Create(ctx, obj); err != nil {
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
		// Without a request reference, keep the existing reference and namespaces.
		spec.RequestRef, spec.Namespaces, spec.Offloading = obj.Spec.RequestRef, obj.Spec.Namespaces, obj.Spec.Offloading
	}
	spec.ExpiresAt = keepExpiry(obj.Spec.ExpiresAt, spec.ExpiresAt)
	spec.ConnectBy = keepExpiry(obj.Spec.ConnectBy, spec.ConnectBy)
	spec.ProviderSilentSince = keepExpiry(obj.Spec.ProviderSilentSince, spec.ProviderSilentSince)
	if old := obj.Spec.Notice; old != nil && spec.Notice != nil {
		spec.Notice.EndsAt = *keepExpiry(&old.EndsAt, &spec.Notice.EndsAt)
	}
	obj.Spec, obj.Spec.Release = spec, release
	return obj, patchSpec(ctx, c, obj, before, obj.Spec, before.Spec)
}

// ReleaseConsumer sets release on a ReservationInstruction, if it exists.
func ReleaseConsumer(ctx context.Context, c client.Client, obj *agentv1alpha1.ReservationInstruction) error {
	before := obj.DeepCopy()
	obj.Spec.Release = true
	return patchSpec(ctx, c, obj, before, obj.Spec, before.Spec)
}
