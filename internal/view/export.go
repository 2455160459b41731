package view

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if k.group != "" {
			names = append(names, k.kind)
		}
	}
	return names
}

// Export returns the objects of this product in the snapshot, by kind. It leaves out nodes and pods, which belong to
// the user.
func Export(s *Snapshot) (groups []ExportedGroup) {
	if b := s.Broker; b != nil {
		var clusters, reservations, configs []Exported
		for i := range b.Clusters {
			clusters = append(clusters, exportObject("ClusterAdvertisement", &b.Clusters[i].ObjectMeta, b.Clusters[i].Spec, b.Clusters[i].Status))
		}
		for i := range b.Reservations {
			reservations = append(reservations, exportObject("Reservation", &b.Reservations[i].ObjectMeta, b.Reservations[i].Spec, b.Reservations[i].Status))
		}
		if b.Config != nil {
			configs = append(configs, exportObject("BrokerConfig", &b.Config.ObjectMeta, b.Config.Spec, b.Config.Status))
		}
		groups = append(groups, ExportedGroup{"clusteradvertisements", clusters}, ExportedGroup{"reservations", reservations}, ExportedGroup{"brokerconfigs", configs})
	}
	if m := s.Member; m != nil {
		groups = append(groups, m.exportMember()...)
	}
	return groups
}

func (m *MemberObjects) exportMember() []ExportedGroup {
	var requests, consumed, provided, offers, policies []Exported
	for i := range m.Requests {
		requests = append(requests, exportObject("ResourceRequest", &m.Requests[i].ObjectMeta, m.Requests[i].Spec, m.Requests[i].Status))
	}
	for i := range m.ConsumerInstructions {
		consumed = append(consumed, exportObject("ReservationInstruction", &m.ConsumerInstructions[i].ObjectMeta, m.ConsumerInstructions[i].Spec, m.ConsumerInstructions[i].Status))
	}
	for i := range m.ProviderInstructions {
		provided = append(provided, exportObject("ProviderInstruction", &m.ProviderInstructions[i].ObjectMeta, m.ProviderInstructions[i].Spec, m.ProviderInstructions[i].Status))
	}
	for i := range m.Advertisements {
		offers = append(offers, exportObject("Advertisement", &m.Advertisements[i].ObjectMeta, m.Advertisements[i].Spec, m.Advertisements[i].Status))
	}
	for i := range m.Policies {
		policies = append(policies, exportObject("LendingPolicy", &m.Policies[i].ObjectMeta, m.Policies[i].Spec, m.Policies[i].Status))
	}
	return []ExportedGroup{
		{"resourcerequests", requests}, {"reservationinstructions", consumed}, {"providerinstructions", provided},
		{"advertisements", offers}, {"lendingpolicies", policies},
	}
}

func exportObject(kind string, meta *metav1.ObjectMeta, spec, status any) Exported {
	return Exported{
		Kind: kind, Namespace: meta.Namespace, Name: meta.Name, UID: string(meta.UID), Generation: meta.Generation,
		CreationTimestamp: meta.CreationTimestamp, DeletionTimestamp: meta.DeletionTimestamp, Finalizers: meta.Finalizers, Labels: meta.Labels,
		Spec: spec, Status: status,
	}
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
