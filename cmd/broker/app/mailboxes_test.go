package app

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/kubernetes"
)

func TestEachMailboxNamespaceBelongsToOneCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces map[string]string
		want       map[string]string
		refused    string
	}{
		"none":                         {want: map[string]string{}},
		"one each":                     {namespaces: map[string]string{"rome": "cluster-rome", "paris": "p"}, want: map[string]string{"cluster-rome": "rome", "p": "paris"}},
		"two clusters in one":          {namespaces: map[string]string{"rome": "shared", "paris": "shared"}, refused: `namespace "shared" is given to "paris" and to "rome"`},
		"an ID that no cluster has":    {namespaces: map[string]string{"Rome": "r"}, refused: `cluster ID "Rome"`},
		"a name that no namespace has": {namespaces: map[string]string{"rome": ""}, refused: `"" of cluster "rome"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := clustersByNamespace(tc.namespaces)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("clustersByNamespace = %v; want %q", err, tc.refused)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("clustersByNamespace: %v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// throughAPIServer connects a cluster through the API server, with the rights of the chart.
func (s *site) throughAPIServer(clusterID string) *httptransport.Transport {
	s.t.Helper()
	kubeconfig, err := s.plane.ServiceAccountKubeconfig(s.t.Context(), "mailbox-"+clusterID, "agent")
	s.check(err)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	s.check(err)
	c, err := kubernetes.New(kubernetes.Options{Config: config, Namespace: "mailbox-" + clusterID})
	s.check(err)
	s.t.Cleanup(func() { s.check(c.Close()) })
	return c
}

// TestAgentsComeThroughTheAPIServer checks that two clusters that can reach only the broker's API
// server can lend to each other. When the leader is killed, another replica continues.
func TestAgentsComeThroughTheAPIServer(t *testing.T) {
	s := newSite(t, 2, "rome", "paris")
	leads, _ := s.leader(nil)
	rome, paris := s.throughAPIServer("rome"), s.throughAPIServer("paris")
	s.offer(paris, "paris", "8", 1)

	request := &v1.ReservationRequest{Resources: v1.Amounts{"cpu": "2", "memory": "1Gi"}, DurationSeconds: 3600}
	var granted *v1.Reservation
	reserve := func(ctx context.Context) (err error) {
		granted, err = rome.RequestReservation(ctx, "rome-0001", request)
		return err
	}
	s.persist("reserve", reserve)
	if granted == nil || granted.Instruction.ProviderID != "paris" {
		t.Fatalf("reservation %+v, want it of paris", granted)
	}
	list, err := paris.FetchInstructions(t.Context(), "", time.Minute)
	s.check(err)
	if len(list.Instructions) != 1 || list.Instructions[0].Reservation != granted.Name {
		t.Errorf("instructions of paris %+v, want one for %q", list.Instructions, granted.Name)
	}
	s.persist("acknowledge", func(ctx context.Context) error {
		return paris.ReportStatus(ctx, granted.Name, &v1.StatusReport{Placement: 1, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged})
	})

	first := granted.Name
	leads.Kill()
	s.leader(leads)
	s.persist("reserve again", reserve)
	if granted.Name != first {
		t.Errorf("reservation %q after another replica took over, it was %q", granted.Name, first)
	}
	s.persist("release", func(ctx context.Context) error {
		_, err := rome.ReleaseReservation(ctx, first, "")
		return err
	})
	list, err = paris.FetchInstructions(t.Context(), list.Cursor, time.Minute)
	s.check(err)
	ended := func(i v1.Instruction) bool { return i.Reservation == first && i.State != v1.InstructionStateHold }
	if !slices.ContainsFunc(list.Instructions, ended) {
		t.Errorf("instructions of paris after the release %+v, want that it ends", list.Instructions)
	}
}
