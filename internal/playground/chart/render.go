// Package chart renders Helm charts without Helm's command line and without a cluster.
package chart

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	helmchart "helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// Release is what a chart is rendered for.
type Release struct {
	Name, Namespace string
	// Values are merged over those of the chart, and checked by its schema.
	Values map[string]any
}

// Rendered is what an installation applies.
type Rendered struct {
	CRDs, Objects []*unstructured.Unstructured
	// Hooks are what Helm runs at moments of its own: before and after it deletes a
	// release, or in a test.
	Hooks []*unstructured.Unstructured
	// Notes are what Helm prints after an installation.
	Notes string
}

// LoadFS loads the chart in a tree of files.
func LoadFS(files fs.FS) (*helmchart.Chart, error) {
	var buffered []*loader.BufferedFile
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		// What cert-manager's release tool makes a Chart.yaml of is one already.
		name = strings.Replace(name, "Chart.template.yaml", "Chart.yaml", 1)
		buffered = append(buffered, &loader.BufferedFile{Name: name, Data: data})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading a chart: %w", err)
	}
	return loader.LoadFiles(buffered)
}

// LoadDir loads the chart in a folder.
func LoadDir(folder string) (*helmchart.Chart, error) { return loader.LoadDir(folder) }

// Render gives the manifests of a chart, each list ordered by kind, namespace and name.
// It fails where Helm does: on values that the schema or a template refuses.
func Render(c *helmchart.Chart, r Release) (*Rendered, error) {
	files, err := renderFiles(c, r)
	if err != nil {
		return nil, fmt.Errorf("chart %q: %w", c.Name(), err)
	}
	out := &Rendered{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		switch path.Ext(name) {
		case ".yaml", ".yml":
		default:
			if path.Base(name) == "NOTES.txt" {
				out.Notes += files[name]
			}
			continue
		}
		for _, text := range releaseutil.SplitManifests(files[name]) {
			if err := out.sort(text); err != nil {
				return nil, fmt.Errorf("chart %q: %s: %w", c.Name(), name, err)
			}
		}
	}
	for _, list := range [][]*unstructured.Unstructured{out.CRDs, out.Objects, out.Hooks} {
		slices.SortFunc(list, func(a, b *unstructured.Unstructured) int {
			return cmp.Or(
				cmp.Compare(a.GetKind(), b.GetKind()),
				cmp.Compare(a.GetNamespace(), b.GetNamespace()),
				cmp.Compare(a.GetName(), b.GetName()))
		})
	}
	return out, nil
}

// renderFiles gives the manifests of a chart by the names of their files.
func renderFiles(c *helmchart.Chart, r Release) (map[string]string, error) {
	if err := chartutil.ProcessDependenciesWithMerge(c, r.Values); err != nil {
		return nil, err
	}
	values, err := chartutil.ToRenderValues(c, r.Values,
		chartutil.ReleaseOptions{Name: r.Name, Namespace: r.Namespace, IsInstall: true, Revision: 1}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(c, values)
	if err != nil {
		return nil, err
	}
	for _, crd := range c.CRDObjects() {
		files[crd.Filename] = string(crd.File.Data)
	}
	return files, nil
}

// sort puts one manifest where it belongs.
func (r *Rendered) sort(text string) error {
	obj, err := decode(text)
	if err != nil {
		return fmt.Errorf("%w in\n%s", err, strings.TrimSpace(text))
	}
	switch {
	case len(obj.Object) == 0:
	case obj.GetAnnotations()["helm.sh/hook"] != "":
		r.Hooks = append(r.Hooks, obj)
	case obj.GetKind() == "CustomResourceDefinition":
		r.CRDs = append(r.CRDs, obj)
	default:
		r.Objects = append(r.Objects, obj)
	}
	return nil
}

// decode makes integers of whole numbers, as API machinery wants them.
func decode(text string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	inJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	return obj, json.Unmarshal(inJSON, &obj.Object)
}
