package chart

import (
	"fmt"
	"io/fs"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ForProcess renders a chart of the product for a cluster beside which its program
// runs as a process: kinds, rights and policies, without pods, certificates and
// webhooks. The names of objects begin with name.
func ForProcess(files fs.FS, name, namespace string) ([]*unstructured.Unstructured, error) {
	off := map[string]any{"enabled": false}
	loaded, err := LoadFS(files)
	if err != nil {
		return nil, err
	}
	values := map[string]any{
		"fullnameOverride": name,
		"certificates": map[string]any{
			"certManager": off,
			"existing":    map[string]any{"tls": "none", "agentsCA": "none"},
		},
		"webhook": off, "enrolment": off,
	}
	if _, enrols := loaded.Values["identity"]; enrols {
		// An agent's: it has neither.
		values["certificates"] = map[string]any{"certManager": off}
		values["enrolment"] = map[string]any{}
	}
	rendered, err := Render(loaded, Release{Name: name, Namespace: namespace, Values: values})
	if err != nil {
		return nil, fmt.Errorf("rendering for a process: %w", err)
	}
	return slices.Concat(rendered.CRDs, rendered.WithoutPods()), nil
}

// WithoutPods are the objects but those that pods come from.
func (r *Rendered) WithoutPods() []*unstructured.Unstructured {
	return slices.DeleteFunc(slices.Clone(r.Objects), func(obj *unstructured.Unstructured) bool {
		return obj.GetKind() == "Deployment"
	})
}
