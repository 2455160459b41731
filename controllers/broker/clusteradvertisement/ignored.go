package clusteradvertisement

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// fieldOwner is under what name the API server notes the broker's figures.
const fieldOwner client.FieldOwner = "liqo-resource-broker"

// figures are what of a spec is the broker's alone.
type figures struct {
	reserved, available corev1.ResourceList
}

func figuresOf(m *brokerv1alpha1.ResourceMetrics) figures {
	return figures{reserved: m.Reserved, available: m.Available}
}

// change is one figure that is about to be replaced.
type change struct {
	// field is reserved or available.
	field    string
	resource corev1.ResourceName
	// written is what stands there, empty if nothing does.
	written, right string
}

// changes are the figures somebody wrote that are not the right ones.
func (f figures) changes(right figures) []change {
	var out []change
	add := func(field string, written, right corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(written)) {
			was, is := written[name], right[name]
			if was.Cmp(is) != 0 {
				out = append(out, change{field, name, was.String(), is.String()})
			}
		}
	}
	add("reserved", f.reserved, right.reserved)
	add("available", f.available, right.available)
	return out
}

// ignoredChanges are those that somebody else than the broker wrote, and who. What
// the broker itself showed last and is out of date now is none.
func (r *Reconciler) ignoredChanges(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement, right figures) ([]change, []string, error) {
	written := figuresOf(&obj.Spec.Resources)
	if last, known := r.shown[client.ObjectKeyFromObject(obj)]; known && len(written.changes(last)) == 0 {
		return nil, nil, nil
	}
	changed := written.changes(right)
	if len(changed) == 0 {
		return nil, nil, nil
	}
	// The cache keeps no managed fields.
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("ClusterAdvertisement"))
	if err := r.reader.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if live.ResourceVersion != obj.ResourceVersion {
		return nil, nil, nil // The write that follows conflicts, and the next look tells.
	}
	foreign, authors := foreignChanges(changed, live.ManagedFields)
	return foreign, authors, nil
}

// foreignChanges keeps the changes of those figures that another manager of fields
// than the broker wrote last, and names these managers.
func foreignChanges(all []change, managed []metav1.ManagedFieldsEntry) (foreign []change, authors []string) {
	for _, c := range all {
		for _, entry := range managed {
			if entry.Manager == string(fieldOwner) || !owns(entry.FieldsV1, c) {
				continue
			}
			if !slices.Contains(authors, entry.Manager) {
				authors = append(authors, entry.Manager)
			}
			if !slices.Contains(foreign, c) {
				foreign = append(foreign, c)
			}
		}
	}
	return foreign, authors
}

func owns(fields *metav1.FieldsV1, c change) bool {
	var tree struct {
		Spec struct {
			Resources map[string]map[string]json.RawMessage `json:"f:resources"`
		} `json:"f:spec"`
	}
	if fields == nil || json.Unmarshal(fields.Raw, &tree) != nil {
		return false
	}
	_, ok := tree.Spec.Resources["f:"+c.field]["f:"+string(c.resource)]
	return ok
}

// tellIgnored records an event for figures that were replaced.
func (r *Reconciler) tellIgnored(obj *brokerv1alpha1.ClusterAdvertisement, ignored []change, authors []string) {
	if len(ignored) == 0 {
		return
	}
	what := make([]string, len(ignored))
	for i, c := range ignored {
		what[i] = fmt.Sprintf("%s %s %s instead of %s", c.field, c.resource, c.written, c.right)
	}
	r.recorder.Eventf(obj, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonFiguresIgnored, "Project", "%s", message.Clip(
		fmt.Sprintf("reserved and available are the broker's: what %s wrote was replaced (%s)", strings.Join(authors, " and "), strings.Join(what, ", ")), message.MaxNote))
}
