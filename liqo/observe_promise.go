package liqo

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// isPromised reports whether the provider has promised a node for a pod: the pod is not larger than
// one of the pods in podShapes of the request, for which a provider checks that they fit before it
// accepts a placement, and has no constraints of its own there.
//
// The broker learns only of such pods. Any other pod may be at fault itself, and would have an honest
// provider blamed. Refusals do not count at all: nothing but an event tells why a copy was refused,
// and whoever may edit the namespace can write such an event.
func (p consumerSide) isPromised(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, pod *corev1.Pod) (bool, error) {
	ref := inst.Spec.RequestRef
	if ref == nil || isConstrained(&pod.Spec) {
		return false, nil
	}
	var request agentv1alpha1.ResourceRequest
	if err := p.opts.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &request); err != nil || string(request.UID) != ref.UID {
		return false, client.IgnoreNotFound(err)
	}
	wants := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return slices.ContainsFunc(request.Spec.PodShapes, func(shape brokerv1alpha1.PodShape) bool {
		return !quantity.Exceeds(wants, corev1.ResourceList(shape.Resources))
	}), nil
}

// isConstrained reports whether a pod has constraints, besides its size, that Liqo copies to the
// provider and that some nodes there may not meet. Liqo copies neither node selectors nor affinity.
func isConstrained(pod *corev1.PodSpec) bool {
	return len(pod.TopologySpreadConstraints) > 0 || pod.RuntimeClassName != nil || len(pod.ResourceClaims) > 0 ||
		slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
		}) ||
		slices.ContainsFunc(slices.Concat(pod.Containers, pod.InitContainers), func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
		})
}
