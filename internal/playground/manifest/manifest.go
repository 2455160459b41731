// Package manifest applies Kubernetes manifests to the playground's clusters.
package manifest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object is one object of a manifest.
type Object = *unstructured.Unstructured

// ReadFS reads the objects in all files in a folder and its subfolders.
func ReadFS(files fs.FS, folder string) ([]Object, error) {
	var out []Object
	err := fs.WalkDir(files, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(files, path)
		if err != nil {
			return err
		}
		objects, err := Read(text)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, objects...)
		return nil
	})
	return out, err
}

// Read reads the objects in the text of one file. It skips empty documents.
func Read(text []byte) ([]Object, error) {
	var out []Object
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		obj := &unstructured.Unstructured{}
		err := decoder.Decode(obj)
		switch {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("reading a manifest: %w", err)
		case len(obj.Object) > 0:
			out = append(out, obj)
		}
	}
}

// concurrent is how many objects are applied in parallel. It keeps one API server busy, and leaves time for the
// others.
const concurrent = 4

// Install applies namespaces and CRDs first, waits until the CRDs are established, and then applies the other
// objects.
func Install(ctx context.Context, cl client.Client, objects []Object) error {
	var namespaces, crds, rest []Object
	for _, obj := range objects {
		switch obj.GetKind() {
		case "Namespace":
			namespaces = append(namespaces, obj)
		case "CustomResourceDefinition":
			crds = append(crds, obj)
		default:
			rest = append(rest, obj)
		}
	}
	if err := Apply(ctx, cl, append(namespaces, crds...)); err != nil {
		return err
	}
	if err := awaitCRDs(ctx, cl, crds); err != nil {
		return err
	}
	openStorage(ctx, cl, crds)
	return Apply(ctx, cl, rest)
}

// Apply applies objects in any order. The API server must already know their kinds.
func Apply(ctx context.Context, cl client.Client, objects []Object) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, obj := range objects {
		group.Go(func() error {
			err := cl.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("playground"), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// Place sets the namespace of an object to that of its release, as Helm does, unless the object already names
// one or its kind is not namespaced.
func Place(cl client.Client, obj Object, namespace string) error {
	if obj.GetNamespace() != "" {
		return nil
	}
	namespaced, err := cl.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	if namespaced {
		obj.SetNamespace(namespace)
	}
	return nil
}

// crdTimeout is how long CRDs may take to be established on a busy machine.
const crdTimeout = 5 * time.Minute

// awaitCRDs waits until all CRDs are established. It reads all CRDs with one LIST request, because waiting for
// one CRD after the other takes several times as long.
func awaitCRDs(ctx context.Context, cl client.Client, crds []Object) error {
	waiting := map[string]bool{}
	for _, crd := range crds {
		waiting[crd.GetName()] = true
	}
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apiextensions.k8s.io/v1")
	list.SetKind("CustomResourceDefinitionList")
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, crdTimeout, true, func(ctx context.Context) (bool, error) {
		if len(waiting) == 0 {
			return true, nil
		}
		if err := cl.List(ctx, list); err != nil {
			return false, nil //nolint:nilerr // polled again until the timeout
		}
		for i := range list.Items {
			if isEstablished(&list.Items[i]) {
				delete(waiting, list.Items[i].GetName())
			}
		}
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d CRDs are not established: %w", len(waiting), len(crds), err)
	}
	return nil
}

// storageTimeout is enough for the first request to reach the API server, which goes on without its caller.
const storageTimeout = 300 * time.Millisecond

// openStorage lists each kind once. The API server opens the storage of a kind at the first request, and refuses lists
// with "retry after a second" until it is open. Otherwise the first list of every kind would take a second.
func openStorage(ctx context.Context, cl client.Client, crds []Object) {
	ctx, cancel := context.WithTimeout(ctx, storageTimeout)
	defer cancel()
	var group sync.WaitGroup
	for _, crd := range crds {
		group.Go(func() {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(listKind(crd))
			_ = cl.List(ctx, list, client.Limit(1)) // the next list tells what is wrong
		})
	}
	group.Wait()
}

// listKind returns the list of a CRD's kind in its first version.
func listKind(crd Object) schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "listKind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	first, _ := versions[0].(map[string]any)
	version, _ := first["name"].(string)
	return schema.GroupVersionKind{Group: group, Version: version, Kind: kind}
}

func isEstablished(crd Object) bool {
	raw, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	var conditions []metav1.Condition
	for _, c := range raw {
		if m, ok := c.(map[string]any); ok {
			kind, _ := m["type"].(string)
			status, _ := m["status"].(string)
			conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionStatus(status)})
		}
	}
	return meta.IsStatusConditionTrue(conditions, "Established")
}
