package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

// withPending returns busyBroker whose first cluster has pods without a node.
func withPending() *Snapshot {
	s := busyBroker()
	since := ago(time.Hour)
	s.Broker.Clusters[0].Status.PendingSince = &since
	s.Broker.Clusters[0].Status.Pending = corev1.ResourceList{
		"pods": resource.MustParse("3"), "cpu": resource.MustParse("6"), "nvidia.com/gpu": resource.MustParse("2"),
	}
	return s
}

func TestTopShowsPendingDemandNextToFreeCapacity(t *testing.T) {
	type row struct{ Resource, Free, Total, Pending, Wait string }
	table := NewTopClusters(withPending()).Table()
	id := withPending().Broker.Clusters[0].Spec.ClusterID
	var got []row
	for _, r := range table.Rows {
		if r.Ref.Name == id {
			got = append(got, row{r.Cells[3], r.Cells[8], r.Cells[9], r.Cells[10], r.Cells[11]})
		}
	}
	want := []row{
		{"cpu", "3 cores", "10 cores", "6 cores", "3 pods since 2026-11-20T11:00:00Z"},
		{"memory", "20 GiB", "40 GiB", "0 B", ""},
		{"nvidia.com/gpu", "0", "0", "2", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows of %s (-want +got):\n%s", id, diff)
	}
	for _, r := range NewTopClusters(busyBroker()).Table().Rows {
		if wait := r.Cells[11]; wait != "-" && wait != "" {
			t.Errorf("%s has no pods that wait, and shows %q", r.Ref.Name, wait)
		}
	}
	if wide := table.Columns[10:]; len(wide) != 2 || !wide[0].Wide || !wide[1].Wide {
		t.Errorf("columns %v are not wide", wide)
	}
}

func TestWhyOfAClusterTellsItsPendingDemand(t *testing.T) {
	s := withPending()
	name := s.Broker.Clusters[0].Name
	if text, want := tell(t, "cadv/"+name, s), "3 own pods have no node: 6 cores, 2 nvidia.com/gpu, the first since 2026-11-20T11:00:00Z (60m ago)"; !strings.Contains(text, want) {
		t.Errorf("%q is missing in:\n%s", want, text)
	}
	if text := tell(t, "cadv/"+name, busyBroker()); strings.Contains(text, "no node") {
		t.Errorf("a cluster without waiting pods tells of them:\n%s", text)
	}
}

func TestTopShowsWhatIdleReservationsHold(t *testing.T) {
	s := busyBroker()
	since := ago(time.Hour)
	var idle *brokerv1alpha1.Reservation
	for _, r := range s.Broker.Reservations {
		if r.Status.Granted != nil {
			idle = r
			break
		}
	}
	if idle == nil {
		t.Fatal("the snapshot has no reservation that holds something")
	}
	idle.Status.IdleSince = &since
	held := idle.Status.Granted.Resources.Cpu().MilliValue()
	sum := func(top *Top, name string) (cpu int64, text string) {
		for i := range top.Items {
			for _, l := range top.Items[i].Shares {
				if top.Items[i].Name == name && l.Resource == corev1.ResourceCPU {
					cpu, text = l.Idle, top.Items[i].DescribeIdle()
				} else if l.Idle != 0 && top.Items[i].Name != name {
					t.Errorf("%s has idle %s", top.Items[i].Name, l.Resource)
				}
			}
		}
		return cpu, text
	}
	if got, text := sum(NewTopRequesters(s), idle.Spec.RequesterID); got != held || !strings.Contains(text, "core") {
		t.Errorf("requester %s has %dm idle (%s), want %dm", idle.Spec.RequesterID, got, text, held)
	}
	provider := ""
	for _, c := range s.Broker.Clusters {
		if c.Spec.ClusterID == idle.Status.TargetClusterID {
			provider = c.Name
		}
	}
	if got, _ := sum(NewTopClusters(s), provider); got != held {
		t.Errorf("provider %s has %dm idle, want %dm", provider, got, held)
	}
	if text := tell(t, "rsv/"+idle.Name, s); !strings.Contains(text, "idle since") {
		t.Errorf("why does not say since when it is idle:\n%s", text)
	}
}
