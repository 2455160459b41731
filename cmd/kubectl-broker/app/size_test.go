package app

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// The fleet has more reservations than one page. How long status takes for a large one is a study of e2e/bench.
const fleetClusters, fleetReservations = 20, pageSize + 100

func TestStatusReadsAWholeFleet(t *testing.T) {
	if testing.Short() {
		t.Skip("creating the fleet takes a while")
	}
	plane := controlplanetest.Start(t)
	config := plane.RESTConfig()
	config.QPS = -1
	scheme := runtime.NewScheme()
	if err := brokerv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	crds, err := manifest.ReadFS(charts.Broker(), "files/crds")
	if err != nil {
		t.Fatal(err)
	}
	if err := manifest.Install(t.Context(), c, crds); err != nil {
		t.Fatal(err)
	}
	fill(t, c)
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	code := Run(t.Context(), streams, []string{"kubectl-broker", "status", "--kubeconfig", plane.Kubeconfig()})
	want := fmt.Sprintf("reservations %d %d Active", fleetReservations, fleetReservations)
	if code != exitDone || !strings.Contains(strings.Join(strings.Fields(stdout.String()), " "), want) {
		t.Fatalf("exit code %d, %s, want %q in:\n%s", code, stderr.String(), want, stdout.String())
	}
}

// fill creates the fleet, with objects as large as a broker's.
func fill(t *testing.T, c client.Client) {
	t.Helper()
	var group errgroup.Group
	group.SetLimit(16)
	good := []metav1.Condition{
		{Type: "Ready", Status: "True", Reason: "Active", Message: "the virtual node is Ready", LastTransitionTime: metav1.Now()},
		{Type: "Reserved", Status: "True", Reason: "Reserved", Message: "capacity is held on cluster-0001", LastTransitionTime: metav1.Now()},
		{Type: "Acknowledged", Status: "True", Reason: "Acknowledged", Message: "the agent of cluster-0001 has accepted", LastTransitionTime: metav1.Now()},
	}
	amounts := corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("4Gi")}
	for i := range fleetClusters {
		group.Go(func() error {
			o := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("cluster-%04d", i)}}
			o.Spec = brokerv1alpha1.ClusterAdvertisementSpec{ClusterID: o.Name, Resources: brokerv1alpha1.ResourceMetrics{Capacity: amounts, Allocatable: amounts}}
			if err := c.Create(t.Context(), o); err != nil {
				return err
			}
			o.Status = brokerv1alpha1.ClusterAdvertisementStatus{Phase: "Active", Conditions: good[:1], ObservedGeneration: 1}
			return c.Status().Update(t.Context(), o)
		})
	}
	for i := range fleetReservations {
		group.Go(func() error {
			o := &brokerv1alpha1.Reservation{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("res-%010d", i)}}
			o.Spec = brokerv1alpha1.ReservationSpec{RequesterID: "rome", RequestedResources: brokerv1alpha1.RequestedResources(amounts)}
			if err := c.Create(t.Context(), o); err != nil {
				return err
			}
			o.Status = brokerv1alpha1.ReservationStatus{
				Phase: brokerv1alpha1.ReservationActive, ReservationName: o.Name, TargetClusterID: "cluster-0001", Granted: &brokerv1alpha1.Granted{Resources: amounts},
				Message: "virtual node " + o.Name + "-1 on cluster-0001 is Ready", Conditions: good, ObservedGeneration: 1, Placements: []brokerv1alpha1.Placement{{Number: 1, ClusterID: "cluster-0001", State: brokerv1alpha1.PlacementReady}},
				Rejected: map[string]int32{"LowerScore": 998, "Self": 1},
			}
			for j := range 10 {
				o.Status.Candidates = append(o.Status.Candidates, brokerv1alpha1.Candidate{
					ClusterID: fmt.Sprintf("cluster-%04d", j), Score: "91.20", Reason: "LowerScore", Criteria: map[string]string{"availability": "87.40", "cost": "100.00", "reliability": "50.00"},
				})
			}
			return c.Status().Update(t.Context(), o)
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}
