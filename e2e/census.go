package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// uncounted are kinds of objects that appear and disappear by themselves. For example, Kubernetes removes Liqo's
// signed CertificateSigningRequests after an hour.
var uncounted = []string{"Event", "CertificateSigningRequest", "CertificateRequest"}

// Objects returns all objects of all kinds that can be listed.
func (c *Cluster) Objects(ctx context.Context) ([]unstructured.Unstructured, error) {
	kinds, err := c.kinds()
	if err != nil {
		return nil, err
	}
	var all []unstructured.Unstructured
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := c.List(ctx, list)
		if apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err) {
			continue // discovery lists resources that cannot be read this way
		}
		if err != nil {
			return nil, fmt.Errorf("%s objects of %s: %w", kind.Kind, c.Name, err)
		}
		all = append(all, list.Items...)
	}
	return all, nil
}

func (c *Cluster) kinds() ([]schema.GroupVersionKind, error) {
	d, err := discovery.NewDiscoveryClientForConfig(c.Config)
	if err != nil {
		return nil, err
	}
	lists, err := d.ServerPreferredResources()
	if err != nil {
		return nil, fmt.Errorf("kinds of %s: %w", c.Name, err)
	}
	var kinds []schema.GroupVersionKind
	for _, l := range lists {
		gv, err := schema.ParseGroupVersion(l.GroupVersion)
		if err != nil {
			return nil, err
		}
		for _, r := range l.APIResources {
			if slices.Contains(r.Verbs, "list") && !strings.Contains(r.Name, "/") {
				kinds = append(kinds, gv.WithKind(r.Kind))
			}
		}
	}
	return kinds, nil
}

// Census returns the names of all objects of a cluster. If an object is being deleted, its value names its
// finalizers; otherwise it is "".
func (c *Cluster) Census(ctx context.Context) (map[string]string, error) {
	objects, err := c.Objects(ctx)
	if err != nil {
		return nil, err
	}
	census := map[string]string{}
	for i := range objects {
		o := &objects[i]
		if slices.Contains(uncounted, o.GetKind()) {
			continue
		}
		state := ""
		if o.GetDeletionTimestamp() != nil {
			state = fmt.Sprintf("going, kept by %v", o.GetFinalizers())
		}
		census[o.GetKind()+" "+client.ObjectKeyFromObject(o).String()] = state
	}
	return census, nil
}
