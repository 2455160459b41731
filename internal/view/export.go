package view

import (
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// Exported is the part of an object that the command bundle exports. Spec and Status contain only fields that this
// version knows. Annotations and managed fields are left out, because they may contain anything.
type Exported struct {
	Kind              string            `json:"kind"`
	Namespace         string            `json:"namespace,omitempty"`
	Name              string            `json:"name"`
	UID               string            `json:"uid,omitempty"`
	Generation        int64             `json:"generation,omitempty"`
	CreationTimestamp metav1.Time       `json:"creationTimestamp"`
	DeletionTimestamp *metav1.Time      `json:"deletionTimestamp,omitempty"`
	Finalizers        []string          `json:"finalizers,omitempty"`
	Labels            map[string]string `json:"labels,omitempty"`
	Spec              any               `json:"spec,omitempty"`
	Status            any               `json:"status,omitempty"`
}

// ExportedGroup is a list of all exported objects of one kind.
type ExportedGroup struct {
	Resource string
	Objects  []Exported
}

// EventKinds returns the kinds whose events are exported, which are all kinds of this product.
func EventKinds() (names []string) {
	for _, k := range kinds {
		if k.Group != "" {
			names = append(names, k.Kind)
		}
	}
	return names
}

// Export returns the objects of this product in the snapshot, by kind. It leaves out nodes and pods, which belong to
// the user.
func Export(s *Snapshot) (groups []ExportedGroup) {
	if b := s.Broker; b != nil {
		var configs []*brokerv1alpha1.BrokerConfig
		if b.Config != nil {
			configs = append(configs, b.Config)
		}
		groups = append(groups, exportAll("ClusterAdvertisement", b.Clusters), exportAll("Reservation", b.Reservations), exportAll("BrokerConfig", configs))
	}
	if m := s.Member; m != nil {
		groups = append(groups, exportAll("ResourceRequest", m.Requests), exportAll("ReservationInstruction", m.ConsumerInstructions),
			exportAll("ProviderInstruction", m.ProviderInstructions), exportAll("Advertisement", m.Advertisements), exportAll("LendingPolicy", m.Policies))
	}
	return groups
}

func exportAll[T metav1.Object](kind string, objects []T) ExportedGroup {
	group := ExportedGroup{Resource: kindOf(kind).Plural}
	for _, o := range objects {
		fields := reflect.ValueOf(o).Elem()
		group.Objects = append(group.Objects, Exported{
			Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID()), Generation: o.GetGeneration(),
			CreationTimestamp: o.GetCreationTimestamp(), DeletionTimestamp: o.GetDeletionTimestamp(), Finalizers: o.GetFinalizers(), Labels: o.GetLabels(),
			Spec: fields.FieldByName("Spec").Interface(), Status: fields.FieldByName("Status").Interface(),
		})
	}
	return group
}

// ExportEvents returns the events about objects of this product, oldest first.
func ExportEvents(s *Snapshot) []EventRow {
	known := EventKinds()
	rows := []EventRow{}
	for i := range s.Events {
		if slices.Contains(known, s.Events[i].InvolvedObject.Kind) {
			rows = append(rows, newEventRow(s, &s.Events[i]))
		}
	}
	slices.SortStableFunc(rows, func(a, b EventRow) int { return a.At.Compare(b.At.Time) })
	return rows
}
