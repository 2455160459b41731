package liqo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// install applies the release unless the very same one was applied before.
func install(ctx context.Context, c Cluster, r *release) error {
	digest, err := r.digest()
	if err != nil {
		return err
	}
	done := filepath.Join(c.Dir(), "liqo-installed")
	if was, err := os.ReadFile(done); err == nil && string(was) == digest {
		return nil
	}
	cl, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
	if err := apply(ctx, cl, append([]*unstructured.Unstructured{namespace}, r.crds...)); err != nil {
		return err
	}
	if err := established(ctx, cl, len(r.crds)); err != nil {
		return err
	}
	if err := apply(ctx, cl, r.objects); err != nil {
		return err
	}
	return os.WriteFile(done, []byte(digest), 0o600)
}

func (r *release) digest() (string, error) {
	text, err := json.Marshal([]any{r.crds, r.objects})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// concurrent applies keep one API server busy without starving the others.
const concurrent = 4

func apply(ctx context.Context, cl client.Client, objects []*unstructured.Unstructured) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(concurrent)
	for _, obj := range objects {
		group.Go(func() error {
			if err := inNamespace(cl, obj); err != nil {
				return err
			}
			err := cl.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("playground"), client.ForceOwnership)
			if err != nil {
				return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
			}
			return nil
		})
	}
	return group.Wait()
}

// inNamespace gives an object the release's namespace, as helm does.
func inNamespace(cl client.Client, obj *unstructured.Unstructured) error {
	if obj.GetNamespace() != "" {
		return nil
	}
	namespaced, err := cl.IsObjectNamespaced(obj)
	if err != nil {
		return fmt.Errorf("%s %q: %w", obj.GetKind(), obj.GetName(), err)
	}
	if namespaced {
		obj.SetNamespace(Namespace)
	}
	return nil
}

// established waits for all CRDs with one LIST a look, since waiting for them one by
// one takes several times as long.
func established(ctx context.Context, cl client.Client, want int) error {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("apiextensions.k8s.io/v1")
	list.SetKind("CustomResourceDefinitionList")
	have := 0
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, ready, true, func(ctx context.Context) (bool, error) {
		if err := cl.List(ctx, list); err != nil {
			return false, nil //nolint:nilerr // asked again until the time is over
		}
		have = 0
		for i := range list.Items {
			if isEstablished(&list.Items[i]) {
				have++
			}
		}
		return have >= want, nil
	})
	if err != nil {
		return fmt.Errorf("%d of %d CRDs are established: %w", have, want, err)
	}
	return nil
}

func isEstablished(crd *unstructured.Unstructured) bool {
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
