package release

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// load reads the chart in a folder of files.
func load(files fs.FS) (*chart.Chart, error) {
	var buffered []*loader.BufferedFile
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, path)
		// What cert-manager's release tool makes a Chart.yaml of is one already.
		path = strings.Replace(path, "Chart.template.yaml", "Chart.yaml", 1)
		buffered = append(buffered, &loader.BufferedFile{Name: path, Data: content})
		return err
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(buffered)
}

// rendered is what a chart makes of its values.
type rendered struct {
	// objects to apply, in Helm's order.
	objects     []manifest.Object
	deployments []appsv1.Deployment
	hooks       []hook
}

// hook is an object that Helm handles at an event of a release.
type hook struct {
	*helmrelease.Hook
	object manifest.Object
}

// at are the hooks of an event, in the order of their weights.
func (r *rendered) at(event helmrelease.HookEvent) []hook {
	var out []hook
	for _, h := range r.hooks {
		if slices.Contains(h.Events, event) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b hook) int { return a.Weight - b.Weight })
	return out
}

// render does what helm template does.
func render(folder fs.FS, name, namespace string, values map[string]any) (*rendered, error) {
	c, err := load(folder)
	if err != nil {
		return nil, err
	}
	if err := chartutil.ProcessDependenciesWithMerge(c, values); err != nil {
		return nil, err
	}
	top, err := chartutil.ToRenderValues(c, values,
		chartutil.ReleaseOptions{Name: name, Namespace: namespace, IsInstall: true, Revision: 1}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, top)
	if err != nil {
		return nil, err
	}
	for path := range files {
		if strings.HasSuffix(path, "NOTES.txt") {
			delete(files, path)
		}
	}
	hooks, manifests, err := releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
	if err != nil {
		return nil, err
	}
	r := &rendered{}
	for _, h := range hooks {
		object, err := decode(h.Manifest)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Path, err)
		}
		r.hooks = append(r.hooks, hook{h, object})
	}
	for _, m := range manifests {
		if err := r.add(m); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Name, err)
		}
	}
	return r, nil
}

func (r *rendered) add(m releaseutil.Manifest) error {
	object, err := decode(m.Content)
	if err != nil {
		return err
	}
	switch object.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		if err := convert(object, &d); err != nil {
			return err
		}
		r.deployments = append(r.deployments, d)
	case "Pod", "Job", "CronJob", "DaemonSet", "StatefulSet", "ReplicaSet":
		return fmt.Errorf("%s %q: no kubelet would run it, and no process stands in for its kind", object.GetKind(), object.GetName())
	default:
		r.objects = append(r.objects, object)
	}
	return nil
}

func decode(text string) (manifest.Object, error) {
	object := &unstructured.Unstructured{}
	return object, yaml.UnmarshalStrict([]byte(text), &object.Object)
}

// convert is strict: a field that the kind does not have is an error.
func convert(object manifest.Object, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}
