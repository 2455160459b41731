package liqo

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func (p *Peering) ensureNamespace(ctx context.Context, peer string, made failpoint.Point) error {
	err := object.Create(ctx, p.opts.Client, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: object.TenantNamespaceName(peer), Labels: object.TenantNamespaceLabels(peer),
	}})
	failpoint.Hit(made)
	return err
}

// leaveHome carries out what planHome calls for.
func (p *Peering) leaveHome(ctx context.Context, verb plan.Verb, peer string, ns *corev1.Namespace, deleted failpoint.Point) error {
	switch verb {
	case plan.DeleteNamespace:
		err := object.Delete(ctx, p.opts.Client, ns)
		failpoint.Hit(deleted)
		return err
	case plan.DeleteNamespaceMap:
		namespaceMap := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: peer}}
		return client.IgnoreNotFound(p.opts.Client.Delete(ctx, namespaceMap))
	case plan.DeleteGateways, plan.DeleteConfiguration:
		return p.network.Remove(ctx, verb, peer)
	case plan.DeleteForeignCluster:
		return client.IgnoreNotFound(p.opts.Client.Delete(ctx, &liqov1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: peer}}))
	}
	return fmt.Errorf("peering with %q: nothing does %q", peer, verb)
}

// Finish deletes an instruction that holds nothing any more. Deleting comes first:
// after a crash in between, the finalizer still brings it here.
func Finish(ctx context.Context, c client.Client, inst client.Object) error {
	if inst.GetDeletionTimestamp() == nil {
		uid := inst.GetUID()
		if err := c.Delete(ctx, inst, client.Preconditions{UID: &uid}); err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	finalizers := without(inst.GetFinalizers(), agentv1alpha1.PeeringFinalizer)
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q,"finalizers":%s}}`, inst.GetUID(), finalizers)
	return client.IgnoreNotFound(c.Patch(ctx, inst, client.RawPatch(types.MergePatchType, patch)))
}

func without(finalizers []string, finalizer string) string {
	left := slices.DeleteFunc(slices.Clone(finalizers), func(f string) bool { return f == finalizer })
	encoded, _ := json.Marshal(append([]string{}, left...)) // a list of strings always encodes
	return string(encoded)
}
