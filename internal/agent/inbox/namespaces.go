package inbox

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// Namespaces resolves the namespaces that a ResourceRequest offloads, sorted. By default that
// is the request's own namespace. Any other namespace needs the opt-in label; without it, the
// namespace is closed to the request.
func Namespaces(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest) (open, closed []string, err error) {
	if rr.Spec.Namespaces == nil {
		return []string{rr.Namespace}, nil, nil
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(*rr.Spec.Namespaces))) {
		ok, err := isOffloadable(ctx, c, rr, name)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			open = append(open, name)
		} else {
			closed = append(closed, name)
		}
	}
	return open, closed, nil
}

// Offloads reports whether a ResourceRequest names a namespace and the namespace is open to it.
func Offloads(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest, name string) (bool, error) {
	if rr.Spec.Namespaces == nil {
		return name == rr.Namespace, nil
	}
	if !slices.Contains(*rr.Spec.Namespaces, name) {
		return false, nil
	}
	return isOffloadable(ctx, c, rr, name)
}

func isOffloadable(ctx context.Context, c client.Reader, rr *agentv1alpha1.ResourceRequest, name string) (bool, error) {
	if name == rr.Namespace {
		return true, nil
	}
	ns := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, ns); apierrors.IsNotFound(err) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read namespace %q: %w", name, err)
	}
	return ns.Labels[agentv1alpha1.OffloadLabel] == "true", nil
}
