// Package owned finds, makes and deletes the ResourceRequests that the agent keeps for other objects of users, such as
// BurstPolicies. The owner controls its requests, so Kubernetes deletes them with it.
package owned

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// MetadataOf returns the metadata of a new ResourceRequest with this name for an owner of the given kind.
func MetadataOf(owner client.Object, kind schema.GroupVersionKind, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: owner.GetNamespace(), Name: name,
		Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
		// blockOwnerDeletion is left out: some clusters let only those set it who may write the owner's finalizers.
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: new(true),
		}},
	}
}

// FindRequest returns a ResourceRequest, nil if it does not exist. A cache may not have a new one yet, so the API server
// is asked too.
func FindRequest(ctx context.Context, cache, server client.Reader, key client.ObjectKey) (*agentv1alpha1.ResourceRequest, error) {
	rr := &agentv1alpha1.ResourceRequest{}
	err := cache.Get(ctx, key, rr)
	if apierrors.IsNotFound(err) {
		err = server.Get(ctx, key, rr)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read resource request %q: %w", key, err)
	}
	return rr, nil
}

// NodesOf returns the virtual nodes of a ResourceRequest. It has two while its reservation moves to another provider.
func NodesOf(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes, client.MatchingLabels(agentv1alpha1.RequestNodeLabels(rr.Namespace, rr.Name))); err != nil {
		return nil, fmt.Errorf("list virtual nodes of resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	return nodes.Items, nil
}

// DeleteRequest deletes a ResourceRequest, unless it has changed since the agent read it. It returns nil if the request is
// already gone.
func DeleteRequest(ctx context.Context, c client.Writer, rr *agentv1alpha1.ResourceRequest) error {
	uid, version := rr.UID, rr.ResourceVersion
	err := c.Delete(ctx, rr, client.Preconditions{UID: &uid, ResourceVersion: &version})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete resource request %q: %w", client.ObjectKeyFromObject(rr), err)
	}
	return nil
}
