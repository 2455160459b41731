package guard

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	"github.com/liqotech/liqo/pkg/liqo-controller-manager/authentication"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Decision is a provider's answer to a ResourceSlice of class object.SliceClass.
type Decision struct {
	Granted bool
	Message string
	// Resources are the granted resources; nil if the slice is denied.
	Resources corev1.ResourceList
	// NodeLabels are the labels that the consumer's virtual node gets.
	NodeLabels map[string]string
}

// defaultPods is how many pods are granted for a reservation that does not limit them. It is
// the default limit of a kubelet (maxPods).
const defaultPods = 110

// Place is the location of the provider. A part that is not known is empty.
type Place struct {
	Region, Zone string
}

// Decide returns the provider's answer to a slice that peer replicated to this cluster. inst is
// the instruction with the slice's name, nil if there is none. The slice is denied unless inst
// is an acknowledged instruction of peer that has not ended. A granted slice gets what it
// requests, limited to inst.Kept(). Resources that inst does not name are not granted, except
// pods: without any, the virtual node could run nothing, so they default to defaultPods.
func Decide(slice *authv1beta1.ResourceSlice, peer string, inst *agentv1alpha1.ProviderInstruction, at Place) Decision {
	if why := denialReason(slice, peer, inst); why != "" {
		return Decision{Message: why}
	}
	granted, kept := corev1.ResourceList{}, inst.Kept()
	for name := range slice.Status.Resources {
		// Resources granted earlier are set to zero first, because Liqo does not revoke a resource
		// that is merely left out.
		granted[name] = resource.Quantity{}
	}
	for name, most := range kept {
		asked, ok := slice.Spec.Resources[name]
		if !ok {
			continue
		}
		if asked.Cmp(most) > 0 {
			asked = most
		}
		granted[name] = asked.DeepCopy()
	}
	if _, ok := kept[corev1.ResourcePods]; !ok {
		granted[corev1.ResourcePods] = *resource.NewQuantity(defaultPods, resource.DecimalSI)
	}
	labels := map[string]string{agentv1alpha1.ReservationLabel: inst.Spec.ReservationName}
	if at.Region != "" {
		labels[corev1.LabelTopologyRegion] = at.Region
	}
	if at.Zone != "" {
		labels[corev1.LabelTopologyZone] = at.Zone
	}
	return Decision{
		Granted: true, Resources: granted, NodeLabels: labels,
		Message: fmt.Sprintf("granted for reservation %q", inst.Spec.ReservationName),
	}
}

func denialReason(slice *authv1beta1.ResourceSlice, peer string, inst *agentv1alpha1.ProviderInstruction) string {
	consumer := slice.Spec.ConsumerClusterID
	switch {
	case inst == nil:
		return fmt.Sprintf("slice %q has no reservation", slice.Name)
	case inst.Spec.RequesterClusterID != peer || consumer != nil && string(*consumer) != peer:
		return fmt.Sprintf("the reservation of slice %q is not for cluster %q", slice.Name, peer)
	case inst.Ended():
		return fmt.Sprintf("reservation %q has ended", inst.Spec.ReservationName)
	case !inst.Status.Enforced:
		return fmt.Sprintf("reservation %q is not acknowledged yet", inst.Spec.ReservationName)
	}
	return ""
}

// Authenticated reports whether Liqo has authenticated the cluster that sent the slice.
func Authenticated(slice *authv1beta1.ResourceSlice) bool {
	return conditionIs(slice, authv1beta1.ResourceSliceConditionTypeAuthentication, authv1beta1.ResourceSliceConditionAccepted)
}

func conditionIs(slice *authv1beta1.ResourceSlice, kind authv1beta1.ResourceSliceConditionType, want authv1beta1.ResourceSliceConditionStatus) bool {
	c := authentication.GetCondition(slice, kind)
	return c != nil && c.Status == want
}

// Record writes a decision into the slice's status and reports whether the status changed. A
// denial does not remove granted resources from the status, because Liqo would not revoke them
// anyway.
func (d Decision) Record(slice *authv1beta1.ResourceSlice, now metav1.Time) bool {
	before := slice.Status.DeepCopy()
	status, reason := authv1beta1.ResourceSliceConditionDenied, "NoReservation"
	if d.Granted {
		status, reason = authv1beta1.ResourceSliceConditionAccepted, "BrokerReservation"
		slice.Status.Resources, slice.Status.NodeLabels = d.Resources, d.NodeLabels
	}
	const kind = authv1beta1.ResourceSliceConditionTypeResources
	c := authentication.GetCondition(slice, kind)
	if c == nil {
		slice.Status.Conditions = append(slice.Status.Conditions, authv1beta1.ResourceSliceCondition{Type: kind})
		c = &slice.Status.Conditions[len(slice.Status.Conditions)-1]
	}
	if c.Status != status {
		c.LastTransitionTime = now
	}
	c.Status, c.Reason, c.Message = status, reason, d.Message
	return !equality.Semantic.DeepEqual(before, &slice.Status)
}

// Grant answers a slice that a consumer's Liqo replicated to this cluster. It does nothing for
// slices of other classes than object.SliceClass, and before Liqo has authenticated the slice,
// because until then Liqo writes the same status.
func (g *Guard) Grant(ctx context.Context, key types.NamespacedName, at Place) error {
	var slice authv1beta1.ResourceSlice
	if found, err := object.Get(ctx, g.opts.Client, key.Namespace, key.Name, &slice); !found || err != nil {
		return err
	}
	if slice.Spec.Class != object.SliceClass || !object.Replicated(&slice) || slice.DeletionTimestamp != nil || !Authenticated(&slice) {
		return nil
	}
	var ns corev1.Namespace
	if found, err := object.Get(ctx, g.opts.Client, "", key.Namespace, &ns); !found || err != nil || !object.IsTenantNamespace(&ns) {
		return err
	}
	inst := &agentv1alpha1.ProviderInstruction{}
	found, err := object.Get(ctx, g.opts.Client, g.opts.InstructionNamespace, key.Name, inst)
	if err != nil {
		return err
	}
	if !found {
		inst = nil
	}
	decision := Decide(&slice, object.PeerOf(ns.Labels), inst, at)
	update := slice.DeepCopy()
	if !decision.Record(update, metav1.NewTime(g.opts.Clock.Now())) {
		return nil
	}
	if err := g.opts.Client.Status().Update(ctx, update); err != nil {
		return client.IgnoreNotFound(err)
	}
	failpoint.Hit(failpoint.ProviderGranted)
	g.opts.Log.Info("slice decided", "slice", key.Name, "consumer", object.PeerOf(ns.Labels), "granted", decision.Granted, "message", decision.Message)
	return nil
}
