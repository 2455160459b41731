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

// installed records what is installed of a release. It is kept in a file.
type installed struct {
	// Digest is a digest of the applied objects.
	Digest  string
	Values  map[string]any
	Objects []reference
}

// reference identifies an object.
type reference struct {
	schema.GroupVersionKind
	Namespace, Name string
	// Keep is true if the object is kept when the release is uninstalled.
	Keep bool
}

func (r *Release) file() string { return filepath.Join(r.dir, "installed.json") }

// previous returns the record of the last Apply. If there was none, the Digest is empty.
func (r *Release) previous() (installed, error) {
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

// install applies the chart's objects, unless the last Apply has applied the same objects. It first runs the hooks for
// the time before an installation or upgrade. It deletes the objects of the previous chart that are not in this chart.
// It returns the event whose hooks must run next, or "" if nothing has changed.
func (r *Release) install(ctx context.Context, chart *rendered, values map[string]any) (after helmrelease.HookEvent, err error) {
	former, err := r.previous()
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
	if _, err := r.runHooks(ctx, chart.hooksAt(before)); err != nil {
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

// byKind splits the objects, which are in Helm's order, into groups of one kind.
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

// names reports whether both references identify the same object.
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

// Uninstall runs the chart's pre-delete hooks, stops all pods and deletes the applied objects, except those that the
// chart says to keep. If a pre-delete hook fails, nothing is deleted, and the error contains the output of the hook.
func (r *Release) Uninstall(ctx context.Context) error {
	if err := r.uninstall(ctx); err != nil {
		return fmt.Errorf("uninstalling release %q from %s: %w", r.options.Name, r.options.Cluster.Name(), err)
	}
	return nil
}

func (r *Release) uninstall(ctx context.Context) error {
	former, err := r.previous()
	if err != nil {
		return err
	}
	if r.chart == nil {
		return errors.New("it is not installed")
	}
	if _, err := r.runHooks(ctx, r.chart.hooksAt(helmrelease.HookPreDelete)); err != nil {
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
	if _, err := r.runHooks(ctx, r.chart.hooksAt(helmrelease.HookPostDelete)); err != nil {
		return err
	}
	r.chart = nil
	return os.Remove(r.file())
}

// Test runs the chart's tests, as "helm test" does, and returns the output of their pods.
func (r *Release) Test(ctx context.Context) (string, error) {
	if r.chart == nil {
		return "", fmt.Errorf("release %q is not installed in %s", r.options.Name, r.options.Cluster.Name())
	}
	output, err := r.runHooks(ctx, r.chart.hooksAt(helmrelease.HookTest))
	if err != nil {
		return "", fmt.Errorf("test of release %q in %s: %w", r.options.Name, r.options.Cluster.Name(), err)
	}
	return output, nil
}

// runHooks runs hooks in order and returns the output of their pods. If a hook fails, the objects of the hooks before
// it are still deleted.
func (r *Release) runHooks(ctx context.Context, hooks []manifest.Object) (output string, err error) {
	for i, h := range hooks {
		out, err := r.runHook(ctx, h)
		if err != nil {
			return output, errors.Join(err, r.deleteHooks(ctx, hooks[:i]))
		}
		output += out
	}
	return output, r.deleteHooks(ctx, hooks)
}

// deleteHooks deletes the objects of finished hooks that have the delete policy hook-succeeded. Helm keeps hooks
// without a delete policy. Hooks that are Pods or Jobs need no deletion, because they are never applied.
func (r *Release) deleteHooks(ctx context.Context, hooks []manifest.Object) error {
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

// runHook runs a hook: it runs the program of a Pod or Job, and applies any other object.
func (r *Release) runHook(ctx context.Context, h manifest.Object) (string, error) {
	if err := manifest.Place(r.client, h, r.options.Namespace); err != nil {
		return "", err
	}
	find := podOf(h)
	if find == nil {
		return "", manifest.Apply(ctx, r.client, []manifest.Object{h.DeepCopy()}) // apply a copy: the same hook may run again
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
	return runProgram(ctx, spec)
}
