package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Identity returns the provider, accessed as the consumer's Liqo accesses it: with the credentials and rights from
// the peering.
func (e *Environment) Identity(ctx context.Context, consumer, provider string) (*Cluster, error) {
	return e.identity(ctx, consumer, provider, "kubeconfig-controlplane-"+provider)
}

// SliceIdentity returns the provider, accessed as the virtual kubelet of a slice accesses it.
func (e *Environment) SliceIdentity(ctx context.Context, consumer, provider, slice string) (*Cluster, error) {
	return e.identity(ctx, consumer, provider, "kubeconfig-resourceslice-"+slice)
}

func (e *Environment) identity(ctx context.Context, consumer, provider, kubeconfig string) (*Cluster, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: TenantNamespace(provider), Name: kubeconfig}
	if err := e.Member(consumer).Get(ctx, key, secret); err != nil {
		return nil, fmt.Errorf("credentials of %s at %s: %w", consumer, provider, err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data["kubeconfig"])
	if err != nil {
		return nil, fmt.Errorf("credentials of %s at %s: %w", consumer, provider, err)
	}
	return NewCluster(provider+" as "+consumer, config, "")
}

// TenantNamespace returns the name of the namespace that a cluster has for a peer.
func TenantNamespace(peer string) string { return "liqo-tenant-" + peer }

// Kinds of Liqo's objects that belong to a peering.
var (
	SliceKind          = schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSlice"}
	NamespaceMapKind   = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "NamespaceMap"}
	TenantKind         = schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Tenant"}
	IdentityKind       = schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Identity"}
	VirtualNodeKind    = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "VirtualNode"}
	OffloadingKind     = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "NamespaceOffloading"}
	ForeignClusterKind = schema.GroupVersionKind{Group: "core.liqo.io", Version: "v1beta1", Kind: "ForeignCluster"}
	RenewKind          = schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "Renew"}
	QuotaKind          = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "Quota"}
	ShadowPodKind      = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "ShadowPod"}
)

// Object returns an empty object of a kind.
func Object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	return u
}

// Granted returns what a provider lets a consumer use: one line for each Quota, with its amounts.
func (e *Environment) Granted(ctx context.Context, provider, consumer string) ([]string, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(QuotaKind.GroupVersion().WithKind(QuotaKind.Kind + "List"))
	if err := e.Member(provider).List(ctx, list, client.InNamespace(TenantNamespace(consumer))); err != nil {
		return nil, err
	}
	var granted []string
	for _, q := range list.Items {
		amounts, _, err := unstructured.NestedStringMap(q.Object, "spec", "resources")
		if err != nil {
			return nil, err
		}
		granted = append(granted, fmt.Sprintf("%s: %v", q.GetName(), amounts))
	}
	slices.Sort(granted)
	return granted, nil
}

// AwaitDenied waits until the provider has denied a slice. If the slice is gone, this counts as denied, because the
// consumer's Liqo removes a slice that it does not know.
func (c *Cluster) AwaitDenied(ctx context.Context, slice *unstructured.Unstructured, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(slice), slice); err != nil {
			return "", client.IgnoreNotFound(err)
		}
		conditions, _, err := unstructured.NestedSlice(slice.Object, "status", "conditions")
		if err != nil {
			return "", err
		}
		var seen []string
		for _, condition := range conditions {
			condition, ok := condition.(map[string]any)
			if !ok {
				continue
			}
			if condition["status"] == "Denied" {
				return "", nil
			}
			seen = append(seen, fmt.Sprintf("%v %v", condition["type"], condition["status"]))
		}
		return fmt.Sprintf("slice %q to be denied, it has %s", slice.GetName(), strings.Join(seen, ", ")), nil
	})
}

// AwaitScheduling waits until Liqo allows the pods of a namespace to run on virtual nodes.
func (c *Cluster) AwaitScheduling(ctx context.Context, namespace string, within time.Duration) error {
	return Await(ctx, within, func(ctx context.Context) (string, error) {
		ns := &corev1.Namespace{}
		if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil {
			return "", err
		}
		if ns.Labels["liqo.io/scheduling-enabled"] == "" {
			return fmt.Sprintf("namespace %q to be offloaded", namespace), nil
		}
		return "", nil
	})
}
