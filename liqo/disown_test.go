package liqo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

func namespaceMapOf(namespace, name string, labels map[string]string) *offloadingv1beta1.NamespaceMap {
	return &offloadingv1beta1.NamespaceMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels}}
}

func TestReplicatedMapsOfBeforeAreDisowned(t *testing.T) {
	replica := map[string]string{object.ReplicatedLabel: "true", object.OriginLabel: "rome", consts.RemoteClusterID: "rome"}
	own := map[string]string{consts.ReplicationRequestedLabel: "true", object.DestinationLabel: "rome", consts.RemoteClusterID: "rome"}
	tests := map[string]struct {
		namespace, labels, want map[string]string
	}{
		"what the consumer replicated":                      {object.TenantNamespaceLabels("rome"), replica, map[string]string{object.ReplicatedLabel: "true", object.OriginLabel: "rome"}},
		"this cluster's own stays":                          {object.TenantNamespaceLabels("rome"), own, own},
		"nothing is touched where somebody else has peered": {map[string]string{consts.RemoteClusterID: "rome", consts.TenantNamespaceLabel: "true"}, replica, replica},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			paris := w.sites["paris"]
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.TenantNamespaceName("rome"), Labels: test.namespace}}
			w.check(paris.client.Create(t.Context(), ns))
			w.check(paris.client.Create(t.Context(), namespaceMapOf(ns.Name, "any", test.labels)))
			w.check(paris.peering.DisownMaps(t.Context(), "rome", ns))
			var got offloadingv1beta1.NamespaceMap
			w.exists("paris", ns.Name, "any", &got)
			if diff := cmp.Diff(test.want, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
}

// A replicated map belongs to its peer with or without the label. The peering is not over before
// the map is gone, and the map's end wakes the instructions that wait for it.
func TestDisownedMapStillBelongsToPeer(t *testing.T) {
	w := newWorld(t)
	paris := w.sites["paris"]
	for name, labels := range map[string]map[string]string{
		"disowned":   {object.ReplicatedLabel: "true", object.OriginLabel: "rome"},
		"labelled":   {object.ReplicatedLabel: "true", object.OriginLabel: "rome", consts.RemoteClusterID: "rome"},
		"own":        {object.DestinationLabel: "rome", consts.RemoteClusterID: "rome"},
		"of another": {object.ReplicatedLabel: "true", object.OriginLabel: "oslo"},
	} {
		m := namespaceMapOf(object.TenantNamespaceName("rome"), name, labels)
		w.check(paris.client.Create(t.Context(), m))
		if got, want := ConcernOf(m).Peer == "rome", name != "of another"; got != want {
			t.Errorf("a map that is %s concerns %q", name, ConcernOf(m).Peer)
		}
	}
	items, err := object.ListOfPeer(t.Context(), paris.peering.opts.Reader, offloadingv1beta1.SchemeGroupVersion.WithKind("NamespaceMap"), "rome")
	w.check(err)
	var got []string
	for _, item := range items {
		got = append(got, item.Name)
	}
	if diff := cmp.Diff([]string{"labelled", "own", "disowned"}, got); diff != "" {
		t.Errorf("maps of rome (-want +got):\n%s", diff)
	}
}
