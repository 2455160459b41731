package liqo

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

func (p consumerSide) writeOffloading(ctx context.Context, s *consumerScene, a plan.Action) error {
	defer failpoint.Hit(failpoint.ConsumerOffloadingMade)
	if present := s.offloading[a.Namespace]; present != nil {
		update := present.DeepCopy()
		update.Spec.PodOffloadingStrategy = a.Agreement.Strategy.Pods
		update.Spec.ClusterSelector = nodeSelectorOf(a.Agreement.Providers)
		return p.opts.Client.Update(ctx, update)
	}
	err := object.Create(ctx, p.opts.Client, &offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: a.Namespace, Name: object.OffloadingName,
			Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
		},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: a.Agreement.Strategy.Names,
			PodOffloadingStrategy:    a.Agreement.Strategy.Pods,
			ClusterSelector:          nodeSelectorOf(a.Agreement.Providers),
		},
	})
	if apierrors.IsNotFound(err) {
		return nil // the namespace is gone; if it is created again, the watch reports it
	}
	return err
}
