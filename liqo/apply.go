package liqo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
)

// create makes obj. One that is there already is left for the next look: the cache
// had not shown it yet.
func (p *Peering) create(ctx context.Context, obj client.Object) error {
	return client.IgnoreAlreadyExists(p.opts.Client.Create(ctx, obj))
}

// remove deletes exactly the object that was looked at.
func (p *Peering) remove(ctx context.Context, obj client.Object) error {
	uid := obj.GetUID()
	err := p.opts.Client.Delete(ctx, obj, client.Preconditions{UID: &uid})
	if apierrors.IsConflict(err) {
		return nil // another one has its name by now
	}
	return client.IgnoreNotFound(err)
}

func (p *Peering) ensureNamespace(ctx context.Context, peer string, made failpoint.Point) error {
	err := p.create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: TenantNamespaceName(peer), Labels: tenantNamespaceLabels(peer),
	}})
	failpoint.Hit(made)
	return err
}

// leaveHome carries out what planHome calls for.
func (p *Peering) leaveHome(ctx context.Context, verb Verb, peer string, ns *corev1.Namespace, deleted failpoint.Point) error {
	switch verb {
	case DeleteNamespace:
		err := p.remove(ctx, ns)
		failpoint.Hit(deleted)
		return err
	case DeleteNamespaceMap:
		namespaceMap := &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: peer}}
		return client.IgnoreNotFound(p.opts.Client.Delete(ctx, namespaceMap))
	case DeleteGateways:
		return errors.Join(p.removeOurs(ctx, gatewayClientKind, peer), p.removeOurs(ctx, gatewayServerKind, peer))
	case DeleteConfiguration:
		return p.removeOurs(ctx, configurationKind, peer)
	case DeleteForeignCluster:
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
