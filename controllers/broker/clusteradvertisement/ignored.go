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

// fieldOwner is the field manager under which the broker writes ClusterAdvertisements.
const fieldOwner client.FieldOwner = "liqo-resource-broker"

// figures are the amounts in a spec that only the broker may set.
type figures struct {
	reserved, available corev1.ResourceList
}

func figuresOf(m *brokerv1alpha1.ResourceMetrics) figures {
	return figures{reserved: m.Reserved, available: m.Available}
}

// figureChange is a value in an object that the broker is about to replace.
type figureChange struct {
	// field is the name of the field: "reserved" or "available".
	field    string
	resource corev1.ResourceName
	// written is the value in the object; right is the value that the broker replaces it with.
	written, right string
}

// changesFrom returns the values in f that differ from the values in right. It ignores resources that f does not name.
func (f figures) changesFrom(right figures) []figureChange {
	var out []figureChange
	add := func(field string, written, right corev1.ResourceList) {
		for _, name := range slices.Sorted(maps.Keys(written)) {
			was, is := written[name], right[name]
			if was.Cmp(is) != 0 {
				out = append(out, figureChange{field, name, was.String(), is.String()})
			}
		}
	}
	add("reserved", f.reserved, right.reserved)
	add("available", f.available, right.available)
	return out
}

// ignoredChanges returns the values that someone other than the broker wrote, and the field managers that wrote them.
// It leaves out values that the broker itself wrote and that are only outdated.
func (r *Reconciler) ignoredChanges(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement, right figures) ([]figureChange, []string, error) {
	written := figuresOf(&obj.Spec.Resources)
	if last, known := r.shown[client.ObjectKeyFromObject(obj)]; known && len(written.changesFrom(last)) == 0 {
		return nil, nil, nil
	}
	changed := written.changesFrom(right)
	if len(changed) == 0 {
		return nil, nil, nil
	}
	// The field managers are read from the API server, because the cache does not keep them.
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(brokerv1alpha1.GroupVersion.WithKind("ClusterAdvertisement"))
	if err := r.reader.Get(ctx, client.ObjectKeyFromObject(obj), live); err != nil {
		return nil, nil, client.IgnoreNotFound(err)
	}
	if live.ResourceVersion != obj.ResourceVersion {
		return nil, nil, nil // the following write conflicts, and the next reconciliation reports the change
	}
	foreign, authors := foreignChanges(changed, live.ManagedFields)
	return foreign, authors, nil
}

// foreignChanges returns the changes of fields that belong to field managers other than the broker, and the names of
// these managers.
func foreignChanges(all []figureChange, managed []metav1.ManagedFieldsEntry) (foreign []figureChange, authors []string) {
	for _, c := range all {
		for _, entry := range managed {
			if entry.Manager == string(fieldOwner) || !ownsField(entry.FieldsV1, c) {
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

func ownsField(fields *metav1.FieldsV1, c figureChange) bool {
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

// recordIgnored records an event about values that someone else wrote and that the broker has replaced.
func (r *Reconciler) recordIgnored(obj *brokerv1alpha1.ClusterAdvertisement, ignored []figureChange, authors []string) {
	if len(ignored) == 0 {
		return
	}
	what := make([]string, len(ignored))
	for i, c := range ignored {
		what[i] = fmt.Sprintf("%s %s %s instead of %s", c.field, c.resource, c.written, c.right)
	}
	r.recorder.Eventf(obj, nil, corev1.EventTypeWarning, brokerv1alpha1.ReasonFiguresIgnored, "Project", "%s", message.Clip(
		fmt.Sprintf("only the broker sets reserved and available: the figures written by %s were replaced (%s)", strings.Join(authors, " and "), strings.Join(what, ", ")), message.MaxNote))
}
