// Package namespaces decides which namespaces a ResourceRequest may offload.
package namespaces

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Access says which of the namespaces that a ResourceRequest names may be offloaded. Each list is
// sorted.
type Access struct {
	// Open namespaces may be offloaded.
	Open []string
	// Closed namespaces may not be offloaded, because their opt-in label does not name the request's
	// namespace.
	Closed []string
	// LocalOnly namespaces opted in, but the request's strategy is not Local. Any other strategy sends
	// pods away that did not choose to, so only a namespace's own requests may have it.
	LocalOnly []string
	// Missing namespaces do not exist.
	Missing []string
	// System namespaces may never be offloaded.
	System []string
}

// Divide divides the namespaces that a ResourceRequest names into those that it may offload and
// those that it may not. If spec.namespaces is not set, the request names only its own namespace.
// Every other namespace must have the opt-in label, with the name of the request's namespace or with
// "true", and the request must have the strategy Local.
func Divide(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest) (Access, error) {
	names := []string{rr.Namespace}
	if rr.Spec.Namespaces != nil {
		names = slices.Compact(slices.Sorted(slices.Values(*rr.Spec.Namespaces)))
	}
	var a Access
	for _, name := range names {
		list, err := a.listFor(ctx, c, rr, name)
		if err != nil {
			return Access{}, err
		}
		*list = append(*list, name)
	}
	return a, nil
}

// Offloads reports whether a ResourceRequest names a namespace and may offload it.
func Offloads(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest, name string) (bool, error) {
	if rr.Spec.Namespaces == nil && name != rr.Namespace || rr.Spec.Namespaces != nil && !slices.Contains(*rr.Spec.Namespaces, name) {
		return false, nil
	}
	var a Access
	list, err := a.listFor(ctx, c, rr, name)
	return list == &a.Open, err
}

// listFor returns the list to which a namespace belongs.
func (a *Access) listFor(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest, name string) (*[]string, error) {
	if isSystem(name) {
		return &a.System, nil
	}
	if name == rr.Namespace {
		return &a.Open, nil
	}
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, ns); apierrors.IsNotFound(err) {
		return &a.Missing, nil
	} else if err != nil {
		return nil, fmt.Errorf("read namespace %q: %w", name, err)
	}
	switch ns.Labels[agentv1alpha1.OffloadLabel] {
	case "true", rr.Namespace:
	default:
		return &a.Closed, nil
	}
	if o := rr.Spec.Offloading; o != nil && (o.PodCompliance == agentv1alpha1.PodComplianceEnforce || o.PodOffloadingStrategy != "" && o.PodOffloadingStrategy != agentv1alpha1.PodOffloadingLocal) {
		return &a.LocalOnly, nil
	}
	return &a.Open, nil
}

// isSystem reports whether a namespace belongs to Kubernetes or to a peering of Liqo. The schema of
// ResourceRequest has the same rule.
func isSystem(namespace string) bool {
	return strings.HasPrefix(namespace, "kube-") || strings.HasPrefix(namespace, "liqo-tenant-")
}
