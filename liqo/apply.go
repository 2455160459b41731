package liqo

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

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

// applyHome carries out the actions of planHome.
func (p *Peering) applyHome(ctx context.Context, verb plan.Verb, peer string, ns *corev1.Namespace, deleted failpoint.Point) error {
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
	return fmt.Errorf("peering with %q: unknown action %q", peer, verb)
}
