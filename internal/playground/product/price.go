package product

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Price holds the prices of a member's capacity.
type Price struct {
	CPU, Memory, GPU, Currency string
}

// advertiseTimeout is how long an agent may take to advertise on a busy machine.
const advertiseTimeout = 60 * time.Second

// setPrice writes the prices into the Advertisement that the agent has created, as the cluster's operator would.
func setPrice(ctx context.Context, m Member) error {
	cost := map[string]any{"cpuCost": m.Price.CPU, "memoryCost": m.Price.Memory, "currency": m.Price.Currency}
	if m.Price.GPU != "" {
		cost["resourceCosts"] = map[string]any{"nvidia.com/gpu": m.Price.GPU}
	}
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"cost": cost}})
	if err != nil {
		return err
	}
	cl, err := client.New(m.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	advertisement := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cluster-advertisement"}}
	advertisement.SetGroupVersionKind(schema.GroupVersionKind{Group: "liqo.io", Version: "v1alpha1", Kind: "Advertisement"})
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, advertiseTimeout, true, func(ctx context.Context) (bool, error) {
		err := cl.Patch(ctx, advertisement, client.RawPatch(types.MergePatchType, patch))
		return err == nil, client.IgnoreNotFound(err)
	})
}

// awaitPriced waits until the broker knows a cluster's prices.
func (p *Product) awaitPriced(ctx context.Context, clusterID string) error {
	advertisements := &unstructured.UnstructuredList{}
	advertisements.SetGroupVersionKind(schema.GroupVersionKind{
		Group: "broker.fluidos.eu", Version: "v1alpha1", Kind: "ClusterAdvertisementList",
	})
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, advertiseTimeout, true, func(ctx context.Context) (bool, error) {
		if err := p.broker.List(ctx, advertisements, client.InNamespace(Namespace)); err != nil {
			return false, err
		}
		for _, a := range advertisements.Items {
			id, _, _ := unstructured.NestedString(a.Object, "spec", "clusterID")
			_, priced, _ := unstructured.NestedFieldNoCopy(a.Object, "spec", "cost")
			if id == clusterID && priced {
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		return fmt.Errorf("waiting until %s advertises its prices: %w", clusterID, err)
	}
	return nil
}
