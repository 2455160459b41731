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

// rendered is what a chart makes of its values.
type rendered struct {
	// objects to apply, in Helm's order.
	objects     []manifest.Object
	deployments []appsv1.Deployment
	hooks       []manifest.Object
}

// render does what helm template does.
func render(folder fs.FS, name, namespace string, values map[string]any) (*rendered, error) {
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
		return cmp.Or(turn(a)-turn(b), strings.Compare(a.GetKind(), b.GetKind()))
	})
	return r, nil
}

// turn of an object when Helm installs a release: kinds that it does not know come
// last.
func turn(object manifest.Object) int {
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
		return fmt.Errorf("%s %q: no kubelet would run it, and no process stands in for its kind", object.GetKind(), object.GetName())
	default:
		r.objects = append(r.objects, object)
	}
	return nil
}

// convert is strict: a field that the kind does not have is an error.
func convert(object manifest.Object, into any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true); err != nil {
		return fmt.Errorf("%s %q: %w", object.GetKind(), object.GetName(), err)
	}
	return nil
}

// at are the hooks of an event, in the order of their weights.
func (r *rendered) at(event helmrelease.HookEvent) []manifest.Object {
	var out []manifest.Object
	for _, h := range r.hooks {
		if lists(h, helmrelease.HookAnnotation, string(event)) {
			out = append(out, h)
		}
	}
	slices.SortStableFunc(out, func(a, b manifest.Object) int { return weight(a) - weight(b) })
	return out
}

// lists tells whether an annotation of words has a word.
func lists(object manifest.Object, annotation, word string) bool {
	return slices.ContainsFunc(strings.Split(object.GetAnnotations()[annotation], ","), func(w string) bool {
		return strings.TrimSpace(w) == word
	})
}

func weight(object manifest.Object) int {
	n, err := strconv.Atoi(object.GetAnnotations()[helmrelease.HookWeightAnnotation])
	if err != nil {
		return 0 // as Helm takes it
	}
	return n
}
