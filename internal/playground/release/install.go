package release

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	helmrelease "helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// installed is what a release left in its cluster, kept in a file.
type installed struct {
	// Digest of what was applied.
	Digest  string
	Values  map[string]any
	Objects []reference
}

// reference names an object.
type reference struct {
	schema.GroupVersionKind
	Namespace, Name string
	// Keep tells that the object outlives the release.
	Keep bool
}

func (r *Release) file() string { return filepath.Join(r.dir, "installed.json") }

// former is what the last Apply left; its Digest is empty if there was none.
func (r *Release) former() (installed, error) {
	var former installed
	content, err := os.ReadFile(r.file())
	if errors.Is(err, os.ErrNotExist) {
		return former, nil
	}
	if err != nil {
		return former, err
	}
	return former, json.Unmarshal(content, &former)
}

// install applies what the chart renders, unless the very same is there, and deletes
// what it rendered before and no longer does. Hooks of the event that it returns come
// after it; the event is empty if nothing was to be done.
func (r *Release) install(ctx context.Context, chart *rendered, values map[string]any) (after helmrelease.HookEvent, err error) {
	former, err := r.former()
	if err != nil {
		return "", err
	}
	digest, err := chart.digest()
	if err != nil || digest == former.Digest {
		return "", err
	}
	namespace := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": r.options.Namespace},
	}}
	if err := manifest.Install(ctx, r.client, []manifest.Object{namespace}); err != nil {
		return "", err
	}
	before, after := helmrelease.HookPreUpgrade, helmrelease.HookPostUpgrade
	if former.Digest == "" {
		before, after = helmrelease.HookPreInstall, helmrelease.HookPostInstall
	}
	if _, err := r.run(ctx, chart.at(before)); err != nil {
		return "", err
	}
	now := installed{Digest: digest, Values: values}
	for _, group := range byKind(chart.objects) {
		for _, object := range group {
			if err := manifest.Place(r.client, object, r.options.Namespace); err != nil {
				return "", err
			}
			now.Objects = append(now.Objects, refer(object))
		}
		if err := manifest.Install(ctx, r.client, group); err != nil {
			return "", err
		}
	}
	for _, gone := range former.Objects {
		if !gone.Keep && !slices.ContainsFunc(now.Objects, gone.names) {
			if err := r.remove(ctx, gone); err != nil {
				return "", err
			}
		}
	}
	return after, r.note(now)
}

func (r *Release) note(now installed) error {
	content, err := json.MarshalIndent(now, "", " ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(r.file(), content, 0o600)
}

// byKind splits objects in Helm's order into those that come together.
func byKind(objects []manifest.Object) [][]manifest.Object {
	var groups [][]manifest.Object
	for i, object := range objects {
		if i == 0 || object.GetKind() != objects[i-1].GetKind() {
			groups = append(groups, nil)
		}
		groups[len(groups)-1] = append(groups[len(groups)-1], object)
	}
	return groups
}

func refer(object manifest.Object) reference {
	return reference{
		GroupVersionKind: object.GroupVersionKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		Keep: object.GetAnnotations()["helm.sh/resource-policy"] == "keep",
	}
}

// names tells whether both are of the same object.
func (f reference) names(other reference) bool {
	return f.GroupKind() == other.GroupKind() && f.Namespace == other.Namespace && f.Name == other.Name
}

func (r *Release) remove(ctx context.Context, f reference) error {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: f.Name}}
	object.SetGroupVersionKind(f.GroupVersionKind)
	err := r.client.Delete(ctx, object, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("deleting %s %q: %w", f.Kind, f.Name, err)
	}
	return nil
}

func (r *rendered) digest() (string, error) {
	text, err := json.Marshal([]any{r.objects, r.deployments, r.hooks})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// Uninstall ends what Apply began: it runs what the chart wants to be done before, ends
// all pods and deletes what was applied and the chart does not keep. If a hook fails
// nothing is deleted, and the error has its output.
func (r *Release) Uninstall(ctx context.Context) error {
	if err := r.uninstall(ctx); err != nil {
		return fmt.Errorf("uninstalling release %q from %s: %w", r.options.Name, r.options.Cluster.Name(), err)
	}
	return nil
}

func (r *Release) uninstall(ctx context.Context) error {
	former, err := r.former()
	if err != nil {
		return err
	}
	if r.chart == nil {
		return errors.New("it is not installed")
	}
	if _, err := r.run(ctx, r.chart.at(helmrelease.HookPreDelete)); err != nil {
		return err
	}
	for _, p := range r.Pods("") {
		if err := p.stop(); err != nil {
			return err
		}
	}
	r.mu.Lock()
	clear(r.pods)
	r.mu.Unlock()
	for _, object := range slices.Backward(former.Objects) {
		if object.Keep {
			continue
		}
		if err := r.remove(ctx, object); err != nil {
			return err
		}
	}
	if _, err := r.run(ctx, r.chart.at(helmrelease.HookPostDelete)); err != nil {
		return err
	}
	r.chart = nil
	return os.Remove(r.file())
}

// Test does what helm test does, and returns what its pods wrote.
func (r *Release) Test(ctx context.Context) (string, error) {
	if r.chart == nil {
		return "", fmt.Errorf("release %q is not installed in %s", r.options.Name, r.options.Cluster.Name())
	}
	said, err := r.run(ctx, r.chart.at(helmrelease.HookTest))
	if err != nil {
		return "", fmt.Errorf("test of release %q in %s: %w", r.options.Name, r.options.Cluster.Name(), err)
	}
	return said, nil
}

// run runs hooks one after the other, and returns what their pods wrote. After one
// that fails, those before it are tidied up all the same.
func (r *Release) run(ctx context.Context, hooks []manifest.Object) (said string, err error) {
	for i, h := range hooks {
		out, err := r.runHook(ctx, h)
		if err != nil {
			return said, errors.Join(err, r.tidy(ctx, hooks[:i]))
		}
		said += out
	}
	return said, r.tidy(ctx, hooks)
}

// tidy deletes the objects of hooks that have done their work. Helm would leave those
// without a delete policy.
func (r *Release) tidy(ctx context.Context, hooks []manifest.Object) error {
	for _, h := range hooks {
		if podOf(h) != nil || !lists(h, helmrelease.HookDeleteAnnotation, string(helmrelease.HookSucceeded)) {
			continue
		}
		if err := r.remove(ctx, refer(h)); err != nil {
			return err
		}
	}
	return nil
}

// runHook applies a hook, or runs it if it is a pod or makes one.
func (r *Release) runHook(ctx context.Context, h manifest.Object) (string, error) {
	if err := manifest.Place(r.client, h, r.options.Namespace); err != nil {
		return "", err
	}
	find := podOf(h)
	if find == nil {
		return "", manifest.Apply(ctx, r.client, []manifest.Object{h.DeepCopy()}) // it comes again
	}
	p := &Pod{release: r, name: h.GetName()}
	if err := find(&p.template.Spec); err != nil {
		return "", err
	}
	if err := p.prepare(ctx); err != nil {
		return "", err
	}
	spec, err := p.command(nil)
	if err != nil {
		return "", err
	}
	return run(ctx, spec)
}
