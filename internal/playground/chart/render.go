// Package chart renders Helm charts. It needs neither the program helm nor a cluster.
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

// Release describes the release that a chart is rendered for.
type Release struct {
	Name, Namespace string
	// Values are merged over the chart's values and validated against its schema.
	Values map[string]any
}

// Rendered holds the rendered objects of a release.
type Rendered struct {
	CRDs, Objects []*unstructured.Unstructured
	// Hooks are the objects that Helm creates only at certain times: before or after it changes the release, or in a
	// test.
	Hooks []*unstructured.Unstructured
	// Notes is the text that Helm prints after an installation.
	Notes string
}

// LoadFS loads the chart from a file system.
func LoadFS(files fs.FS) (*helmchart.Chart, error) {
	var buffered []*loader.BufferedFile
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(files, name)
		// This template is already a valid Chart.yaml. cert-manager's release tool would give it that name.
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

// Render renders the manifests of a chart. Each list is ordered by kind, namespace and name. Like Helm, it fails on
// values that the schema or a template refuses.
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
			if err := out.add(text); err != nil {
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

// renderFiles returns the manifests of a chart by file name.
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

// add adds one manifest to the list that it belongs to. It ignores an empty manifest.
func (r *Rendered) add(text string) error {
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

// decode parses a manifest. It turns whole numbers into integers, as API machinery requires.
func decode(text string) (*unstructured.Unstructured, error) {
	obj := &unstructured.Unstructured{}
	inJSON, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return nil, err
	}
	return obj, json.Unmarshal(inJSON, &obj.Object)
}
