// Package brokerconfig makes the broker decide by the BrokerConfig named default.
package brokerconfig

import (
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
)

// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=brokerconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=broker.fluidos.eu,resources=brokerconfigs/status,verbs=patch

// Reconciler reconciles the BrokerConfig.
type Reconciler struct {
	client client.Client
	broker *broker.Broker
}

// Setup registers the controller.
func Setup(mgr ctrl.Manager, b *broker.Broker) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("brokerconfig").
		For(&brokerv1alpha1.BrokerConfig{}).
		Complete(&Reconciler{client: mgr.GetClient(), broker: b})
}
