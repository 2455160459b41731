package clusteradvertisement

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// forgetCluster removes a cluster that an administrator has marked with ForgetAnnotation, and then its
// ClusterAdvertisement. It reports whether the object is gone. If the broker refuses, it replaces
// the value of the annotation with the reason, so that the same request does not take effect later,
// when nobody expects it.
func (r *Reconciler) forgetCluster(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement, v *broker.ClusterView) (gone bool, err error) {
	if obj.Annotations[brokerv1alpha1.ForgetAnnotation] != obj.Spec.ClusterID || client.ObjectKeyFromObject(obj) != r.objectOf(obj.Spec.ClusterID) {
		return false, nil
	}
	if v != nil && v.Agent {
		err := r.broker.ForgetCluster(ctx, v.ClusterID)
		if fault.ReasonOf(err) == fault.Conflict {
			return false, r.refuseToForget(ctx, obj, err)
		}
		if err != nil {
			return false, err
		}
		failpoint.Hit(failpoint.BrokerForgotten)
	}
	r.recorder.Eventf(obj, nil, corev1.EventTypeNormal, brokerv1alpha1.ReasonForgotten, "Forget",
		"an administrator removed cluster %s; nothing is reserved there or for it any longer", obj.Spec.ClusterID)
	uid := obj.UID
	err = r.client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if err = client.IgnoreNotFound(err); err != nil {
		return false, fmt.Errorf("deleting the ClusterAdvertisement of forgotten cluster %q: %w", obj.Spec.ClusterID, err)
	}
	delete(r.shown, client.ObjectKeyFromObject(obj))
	return true, nil
}

func (r *Reconciler) refuseToForget(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement, why error) error {
	r.recorder.Eventf(obj, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonForgetRefused, "Forget", "%s", message.Clip(why.Error(), message.MaxNote))
	before := obj.DeepCopy()
	obj.Annotations[brokerv1alpha1.ForgetAnnotation] = brokerv1alpha1.ForgetRefusedPrefix + why.Error()
	return r.client.Patch(ctx, obj, patch.IfUnchanged(before), fieldOwner)
}

// recordRecreated records an event on a ClusterAdvertisement that was deleted and that the broker
// has created again. It names the command that removes a cluster.
func (r *Reconciler) recordRecreated(obj *brokerv1alpha1.ClusterAdvertisement) {
	r.recorder.Eventf(obj, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonRecreated, "Show",
		"the broker knows cluster %[1]s and shows it again; broker forget %[1]s removes a cluster that is gone for good", obj.Spec.ClusterID)
}
