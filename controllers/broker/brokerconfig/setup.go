// Package brokerconfig applies the BrokerConfig named default to the broker.
package brokerconfig

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/outbox"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=brokerconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=brokerconfigs/status,verbs=patch

// Reconciler reconciles the BrokerConfig.
type Reconciler struct {
	client client.Client
	broker *broker.Broker
	outbox *outbox.Outbox
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, b *broker.Broker, o *outbox.Outbox) error {
	r := &Reconciler{client: mgr.GetClient(), broker: b, outbox: o}
	return ctrl.NewControllerManagedBy(mgr).
		Named("brokerconfig").
		For(&brokerv1alpha1.BrokerConfig{}).
		WatchesRawSource(source.Func(r.enqueueConfig)).
		Complete(r)
}

// enqueueConfig enqueues the BrokerConfig at the start, even if it does not exist, because the broker waits until it
// has a configuration. It enqueues the BrokerConfig again whenever this replica becomes the leader, because only the
// leader writes the status.
func (r *Reconciler) enqueueConfig(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	the := reconcile.Request{NamespacedName: types.NamespacedName{Name: brokerv1alpha1.BrokerConfigName}}
	queue.Add(the)
	go r.broker.Feed().Terms(ctx, func() { queue.Add(the) })
	return nil
}
