package clusters

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// OfferGPUs sets a capacity of GPUs on a member's first node, unless a node has GPUs, and waits until the broker
// knows this. No device is needed, because a kubelet does not change extended resources that it does not manage.
func (e *Environment) OfferGPUs(ctx context.Context, id string, n int) error {
	c := e.Cluster(id)
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return err
	}
	for _, node := range nodes.Items {
		if _, has := node.Status.Capacity["nvidia.com/gpu"]; has {
			return nil
		}
	}
	patch := fmt.Appendf(nil, `{"status": {"capacity": {"nvidia.com/gpu": "%[1]d"}, "allocatable": {"nvidia.com/gpu": "%[1]d"}}}`, n)
	if err := c.Status().Patch(ctx, &nodes.Items[0], client.RawPatch(types.MergePatchType, patch)); err != nil {
		return err
	}
	return e2e.Await(ctx, time.Minute, func(ctx context.Context) (string, error) {
		shown, err := e.Advertisement(ctx, id)
		if err != nil {
			return "", err
		}
		if _, has := shown.Spec.Resources.Allocatable["nvidia.com/gpu"]; !has {
			return "GPUs in ClusterAdvertisement " + id, nil
		}
		return "", nil
	})
}
