package release

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	helmrelease "helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// rendered is the result of rendering a chart.
type rendered struct {
	// objects are the objects to apply, in Helm's installation order.
	objects     []manifest.Object
	deployments []appsv1.Deployment
	hooks       []manifest.Object
}

// renderChart renders a chart, as "helm template" does.
func renderChart(folder fs.FS, name, namespace string, values map[string]any) (*rendered, error) {
	loaded, err := chart.LoadFS(folder)
	if err != nil {
		return nil, err
	}
	out, err := chart.Render(loaded, chart.Release{Name: name, Namespace: namespace, Values: values})
	if err != nil {
		return nil, err
	}
	r := &rendered{hooks: out.Hooks}
	for _, object := range slices.Concat(out.CRDs, out.Objects) {
		if err := r.add(object); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(r.objects, func(a, b manifest.Object) int {
		return cmp.Or(installOrder(a)-installOrder(b), strings.Compare(a.GetKind(), b.GetKind()))
	})
	return r, nil
}

// installOrder returns the position of an object's kind in Helm's installation order. Unknown kinds come
// last.
func installOrder(object manifest.Object) int {
	if at := slices.Index(releaseutil.InstallOrder, object.GetKind()); at >= 0 {
		return at
	}
	return len(releaseutil.InstallOrder)
}

func (r *rendered) add(object manifest.Object) error {
	switch object.GetKind() {
	case "Deployment":
		var d appsv1.Deployment
		if err := convert(object, &d); err != nil {
			return err
		}
		r.deployments = append(r.deployments, d)
	case "Pod", "Job", "CronJob", "DaemonSet", "StatefulSet", "ReplicaSet":
		return fmt.Errorf("%s %q: workloads of this kind are not supported", object.GetKind(), object.GetName())
	default:
		r.objects = append(r.objects, object)
	}
	return nil
}

// convert decodes an object into a typed one. It returns an error if the object has a field that the kind
// does not have.
func convert(object manifest.Object, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// hooksAt returns the hooks of an event, ordered by weight.
func (r *rendered) hooksAt(event helmrelease.HookEvent) []manifest.Object {
	var out []manifest.Object
	for _, h := range r.hooks {
		if lists(h, helmrelease.HookAnnotation, string(event)) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b manifest.Object) int { return weight(a) - weight(b) })
	return out
}

// lists reports whether an annotation with comma-separated words contains a word.
func lists(object manifest.Object, annotation, word string) bool {
	return slices.ContainsFunc(strings.Split(object.GetAnnotations()[annotation], ","), func(w string) bool {
		return strings.TrimSpace(w) == word
	})
}

func weight(object manifest.Object) int {
	n, err := strconv.Atoi(object.GetAnnotations()[helmrelease.HookWeightAnnotation])
	if err != nil {
		return 0 // like Helm
	}
	return n
}
