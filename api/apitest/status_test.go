package apitest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// testDefaultedStatus checks the default status of objects that no controller has seen.
func (s apiServer) testDefaultedStatus(t *testing.T) {
	cases := map[string]struct {
		sample     string
		phase      string
		conditions []string
	}{
		"a ClusterAdvertisement":   {"broker_v1alpha1_clusteradvertisement.yaml", "", []string{"Ready", "Fresh"}},
		"a Reservation":            {"broker_v1alpha1_reservation.yaml", "Pending", []string{"Ready", "Reserved"}},
		"a BrokerConfig":           {"broker_v1alpha1_brokerconfig.yaml", "", []string{"Ready"}},
		"an Advertisement":         {"agent_v1alpha1_advertisement.yaml", "", []string{"Ready"}},
		"a ResourceRequest":        {"agent_v1alpha1_resourcerequest.yaml", "Pending", []string{"Ready", "Reserved"}},
		"a ReservationInstruction": {"agent_v1alpha1_reservationinstruction.yaml", "Pending", []string{"Ready"}},
		"a LendingPolicy":          {"agent_v1alpha1_lendingpolicy.yaml", "", []string{"Ready"}},
		"a ProviderInstruction":    {"agent_v1alpha1_providerinstruction.yaml", "Pending", []string{"Ready"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := s.readObject(t, readManifest(t, "../../config/samples/"+tc.sample))
			status, _, err := unstructured.NestedMap(object.Object, "status")
			runtest.Check(t, err)
			phase, _ := status["phase"].(string)
			if phase != tc.phase {
				t.Errorf("phase %q, want %q", phase, tc.phase)
			}
			if generation := status["observedGeneration"]; generation != nil && generation != int64(0) {
				t.Errorf("observedGeneration is %v before a controller has observed it", generation)
			}
			var types []string
			for _, condition := range conditionsOf(object) {
				conditionType, _ := condition["type"].(string)
				types = append(types, conditionType)
				if condition["status"] != string(metav1.ConditionUnknown) {
					t.Errorf("condition %q is %v, want Unknown", conditionType, condition["status"])
				}
			}
			if diff := cmp.Diff(tc.conditions, types); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

// testColumns requests tables like kubectl get.
func (s apiServer) testColumns(t *testing.T) {
	cases := map[string]struct {
		resource schema.GroupVersionResource
		want     []string
	}{
		"clusteradvertisements":   {broker("clusteradvertisements"), []string{"Name", "Cluster", "Phase", "Score", "Band", "CPU free", "Memory free", "GPU free", "Age"}},
		"reservations":            {broker("reservations"), []string{"Name", "Phase", "Requester", "Provider", "CPU", "Memory", "GPU", "Until", "Queue", "Age"}},
		"brokerconfigs":           {broker("brokerconfigs"), []string{"Name", "Preset", "TTL", "Stale after", "Admission", "Ready", "Age"}},
		"clustermailboxes":        {broker("clustermailboxes"), []string{"Name", "Method", "Path", "Code", "Age"}},
		"advertisements":          {agent("advertisements"), []string{"Name", "Cluster", "Published", "CPU free", "Memory free", "Age"}},
		"resourcerequests":        {agent("resourcerequests"), []string{"Name", "Phase", "Reason", "Provider", "CPU", "Memory", "GPU", "Node", "Until", "Queue", "Age"}},
		"reservationinstructions": {agent("reservationinstructions"), []string{"Name", "Phase", "Provider", "CPU", "Memory", "Delivered", "Node", "Age"}},
		"providerinstructions":    {agent("providerinstructions"), []string{"Name", "Phase", "Requester", "CPU", "Memory", "Enforced", "Age"}},
		"lendingpolicies":         {agent("lendingpolicies"), []string{"Name", "Paused", "Placements", "Recalling", "Ready", "Age"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var columns []string
			for _, column := range s.requestTable(t, tc.resource).ColumnDefinitions {
				if column.Priority == 0 {
					columns = append(columns, column.Name)
				}
			}
			if diff := cmp.Diff(tc.want, columns); diff != "" {
				t.Errorf("columns (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("a reservation shows its phase and what is in force", func(t *testing.T) {
		cells := func() []any {
			table := s.requestTable(t, broker("reservations"))
			row := slices.IndexFunc(table.Rows, func(row metav1.TableRow) bool { return row.Cells[0] == "my-workload" })
			if row < 0 {
				t.Fatalf("no row for my-workload: %v", table.Rows)
			}
			return table.Rows[row].Cells[:6]
		}
		if diff := cmp.Diff([]any{"my-workload", "Pending", "user-team", nil, nil, nil}, cells()); diff != "" {
			t.Errorf("cells before the broker answers (-want +got):\n%s", diff)
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(schema.GroupVersionKind{Group: "broker.fluidos.eu", Version: "v1alpha1", Kind: "Reservation"})
		object.SetNamespace("default")
		object.SetName("my-workload")
		s.patchStatus(t, object, `{"granted": {"resources": {"cpu": "1", "memory": "2Gi"}}}`)
		if diff := cmp.Diff([]any{"my-workload", "Pending", "user-team", nil, "1", "2Gi"}, cells()); diff != "" {
			t.Errorf("cells (-want +got):\n%s", diff)
		}
	})
}

func broker(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "broker.fluidos.eu", Version: "v1alpha1", Resource: resource}
}

func agent(resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: "liqo.io", Version: "v1alpha1", Resource: resource}
}

// requestTable lists objects of all namespaces as a table, like kubectl get.
func (s apiServer) requestTable(t *testing.T, resource schema.GroupVersionResource) *metav1.Table {
	t.Helper()
	config := rest.CopyConfig(s.config)
	group := resource.GroupVersion()
	config.GroupVersion, config.APIPath, config.NegotiatedSerializer = &group, "/apis", scheme.Codecs.WithoutConversion()
	kubectl, err := rest.RESTClientFor(config)
	runtest.Check(t, err)
	table := &metav1.Table{}
	err = kubectl.Get().Resource(resource.Resource).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").
		Do(t.Context()).Into(table)
	runtest.Check(t, err)
	return table
}

// testFieldSelectors lists objects by fields of their spec and status.
func (s apiServer) testFieldSelectors(t *testing.T) {
	namespace := s.createNamespace(t, "selectors")
	var (
		reservation   = broker("").GroupVersion().WithKind("Reservation")
		advertisement = broker("").GroupVersion().WithKind("ClusterAdvertisement")
		request       = agent("").GroupVersion().WithKind("ResourceRequest")
	)
	s.createObject(t, reservation, namespace, "by-rome", `{requesterID: rome, requestedResources: {cpu: "2", memory: 1Gi}}`)
	s.createObject(t, reservation, namespace, "by-paris", `{requesterID: paris, requestedResources: {cpu: "2", memory: 1Gi}}`)
	s.createObject(t, advertisement, namespace, "of-rome", `{clusterID: rome, resources: {capacity: {cpu: 1}}}`)
	s.createObject(t, advertisement, namespace, "of-paris", `{clusterID: paris, resources: {capacity: {cpu: 1}}}`)
	s.createObject(t, request, namespace, "asked", `{cpu: "1", memory: 1Gi}`)
	s.setTarget(t, reservation, namespace, "by-rome")
	s.setTarget(t, request, namespace, "asked")

	cases := map[string]struct {
		kind     schema.GroupVersionKind
		selector client.MatchingFields
		want     []string
	}{
		"reservations by requester":         {reservation, client.MatchingFields{"spec.requesterID": "paris"}, []string{"by-paris"}},
		"reservations by provider":          {reservation, client.MatchingFields{"status.targetClusterID": "berlin"}, []string{"by-rome"}},
		"reservations that have none":       {reservation, client.MatchingFields{"status.targetClusterID": "tokyo"}, nil},
		"advertisements by cluster":         {advertisement, client.MatchingFields{"spec.clusterID": "rome"}, []string{"of-rome"}},
		"requests by provider":              {request, client.MatchingFields{"status.targetClusterID": "berlin"}, []string{"asked"}},
		"consumer instructions by provider": {agent("").GroupVersion().WithKind("ReservationInstruction"), client.MatchingFields{"spec.targetClusterID": "berlin"}, nil},
		"provider instructions by consumer": {agent("").GroupVersion().WithKind("ProviderInstruction"), client.MatchingFields{"spec.requesterClusterID": "berlin"}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(tc.kind)
			runtest.Check(t, s.List(t.Context(), list, client.InNamespace(namespace), tc.selector))
			var names []string
			for _, item := range list.Items {
				names = append(names, item.GetName())
			}
			if diff := cmp.Diff(tc.want, names); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

// createObject creates an object with a spec in YAML.
func (s apiServer) createObject(t *testing.T, kind schema.GroupVersionKind, namespace, name, spec string) {
	t.Helper()
	object := parseObject(t, fmt.Appendf(nil, "apiVersion: %s\nkind: %s\nspec: %s", kind.GroupVersion(), kind.Kind, spec))
	object.SetNamespace(namespace)
	object.SetName(name)
	runtest.Check(t, s.Create(t.Context(), object))
}

// setTarget sets berlin as the provider in an object's status.
func (s apiServer) setTarget(t *testing.T, kind schema.GroupVersionKind, namespace, name string) {
	t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	s.patchStatus(t, object, `{"targetClusterID": "berlin"}`)
}

func (s apiServer) patchStatus(t *testing.T, object *unstructured.Unstructured, status string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status": `+status+`}`))
	runtest.Check(t, s.Status().Patch(t.Context(), object, patch))
}
