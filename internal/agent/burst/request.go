package burst

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// ReadRequest returns what plans need to know of a ResourceRequest and its virtual nodes. The caller sets the fields
// Group, Used, IdleSince and OverAt.
func ReadRequest(rr *agentv1alpha1.ResourceRequest, nodes []corev1.Node) Request {
	v := Request{
		Name: rr.Name, Shape: ShapeOf(rr), State: stateOf(rr), Asked: askedBy(rr), HasNode: len(nodes) > 0,
		Cordoned: len(nodes) > 0 && !slices.ContainsFunc(nodes, func(n corev1.Node) bool { return !n.Spec.Unschedulable }),
		Unusable: len(nodes) > 0 && !slices.ContainsFunc(nodes, isUsable),
	}
	if granted := rr.Status.Granted; granted != nil {
		v.Granted = amountsOf(granted.Resources)
	}
	return v
}

func isUsable(n corev1.Node) bool {
	return !n.Spec.Unschedulable && !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

func stateOf(rr *agentv1alpha1.ResourceRequest) State {
	changed := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionChanged)
	switch {
	case rr.DeletionTimestamp != nil:
		return Ending
	case rr.Status.Phase == agentv1alpha1.RequestFailed, rr.Status.Phase == agentv1alpha1.RequestReleased:
		return Over
	case rr.Spec.Release, rr.Status.Phase == agentv1alpha1.RequestReleasing:
		return Ending
	case rr.Status.Granted == nil, rr.Status.ObservedGeneration != rr.Generation:
		return Settling
	case changed != nil && changed.Status == metav1.ConditionUnknown:
		return Settling
	case changed != nil && changed.Status == metav1.ConditionFalse && !askedBy(rr).Equal(amountsOf(rr.Status.Granted.Resources)):
		return Refused
	case rr.Annotations[agentv1alpha1.BurstFullAnnotation] != "":
		return Full
	}
	return Held
}

// askedBy returns the amounts in the spec of a request, except the resource "pods".
func askedBy(rr *agentv1alpha1.ResourceRequest) quantity.Amounts {
	list := corev1.ResourceList{}
	maps.Copy(list, rr.Spec.Resources)
	if rr.Spec.CPU != nil {
		list[corev1.ResourceCPU] = *rr.Spec.CPU
	}
	if rr.Spec.Memory != nil {
		list[corev1.ResourceMemory] = *rr.Spec.Memory
	}
	return amountsOf(list)
}

// amountsOf converts amounts that the schema has checked, except the resource "pods".
func amountsOf[List ~map[corev1.ResourceName]resource.Quantity](list List) quantity.Amounts {
	out := quantity.Amounts{}
	for name, q := range list {
		if name != corev1.ResourcePods {
			out[name] = quantity.Base(name, q)
		}
	}
	return out
}

// ShapeOf returns the amounts that one of the pods requests for which a ResourceRequest was created, with itself as 1 of
// the resource "pods"; nil if the request has no pod shapes.
func ShapeOf(rr *agentv1alpha1.ResourceRequest) quantity.Amounts {
	if len(rr.Spec.PodShapes) == 0 {
		return nil
	}
	shape := amountsOf(rr.Spec.PodShapes[0].Resources)
	shape[corev1.ResourcePods] = 1
	return shape
}

// SetPods sets the amounts of a ResourceRequest to those of a number of pods of a shape.
func SetPods(spec *agentv1alpha1.ResourceRequestSpec, shape quantity.Amounts, pods int64) {
	each := shape.Clone()
	delete(each, corev1.ResourcePods)
	setAmounts(spec, each.Times(pods), shape)
}

// Revert sets the spec of a ResourceRequest back to the granted amounts and marks the request as full, because its
// provider refused to enlarge it.
func Revert(rr *agentv1alpha1.ResourceRequest) {
	setAmounts(&rr.Spec, amountsOf(rr.Status.Granted.Resources), ShapeOf(rr))
	metav1.SetMetaDataAnnotation(&rr.ObjectMeta, agentv1alpha1.BurstFullAnnotation, "true")
}

// setAmounts sets the amounts of a request. It sets the resource "pods" only if the node would
// otherwise admit too few pods.
func setAmounts(spec *agentv1alpha1.ResourceRequestSpec, amounts, shape quantity.Amounts) {
	pods := podsIn(amounts, shape)
	spec.Resources = nil
	for name, q := range amounts.ToResourceList() {
		switch name {
		case corev1.ResourceCPU:
			spec.CPU = &q
		case corev1.ResourceMemory:
			spec.Memory = &q
		default:
			if spec.Resources == nil {
				spec.Resources = brokerv1alpha1.RequestedResources{}
			}
			spec.Resources[name] = q
		}
	}
	if NamesPods(pods) {
		if spec.Resources == nil {
			spec.Resources = brokerv1alpha1.RequestedResources{}
		}
		spec.Resources[corev1.ResourcePods] = *resource.NewQuantity(PodSlots(pods), resource.DecimalSI)
	}
}
