package view

import (
	"errors"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var update = flag.Bool("update", false, "write the golden files")

// plain leaves text as it is.
func plain(_ Level, text string) string { return text }

// compareGolden compares a text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	runtest.CompareGolden(t, *update, filepath.Join("testdata", name), got)
}

func writeStatus(t *testing.T, s *Snapshot) string {
	t.Helper()
	var out strings.Builder
	runtest.Check(t, WriteStatus(&out, NewStatus(s), s, plain))
	return out.String()
}

func TestStatusFitsOnAScreen(t *testing.T) {
	quiet := largeFleet(2, 3)
	partly := member()
	partly.Member.Advertisements = nil
	partly.Gaps = []Gap{
		{Kind: Hidden, Resource: "advertisements", Message: "forbidden"},
		{Kind: Unread, Resource: "nodes", Message: "the server is not available"},
		{Kind: Hidden, Resource: "resourcerequests", Namespace: "team", Message: "forbidden"},
	}
	cases := map[string]*Snapshot{
		"status-busy.txt": busyBroker(), "status-quiet.txt": quiet, "status-member.txt": member(), "status-gaps.txt": partly,
		"status-empty.txt": {Context: "broker", At: noon, Broker: &BrokerObjects{}},
	}
	for name, snapshot := range cases {
		t.Run(name, func(t *testing.T) { compareGolden(t, name, writeStatus(t, snapshot)) })
	}
}

func TestAttention(t *testing.T) {
	failedWith := func(reason string) *brokerv1alpha1.Reservation {
		return reservation("r", brokerv1alpha1.ReservationFailed, condition("Ready", "False", reason, time.Hour, ""))
	}
	cases := map[string]struct {
		reservations []*brokerv1alpha1.Reservation
		clusters     []*brokerv1alpha1.ClusterAdvertisement
		want         []string
	}{
		"nothing is wrong":                    {clusters: []*brokerv1alpha1.ClusterAdvertisement{cluster("paris", "Active", 0, condition("Ready", "True", "Active", time.Hour, ""))}},
		"a request that waits for a moment":   {reservations: []*brokerv1alpha1.Reservation{reservation("r", brokerv1alpha1.ReservationQueued, condition("Ready", "False", "Queued", time.Minute, ""))}},
		"a request that waits for long":       {reservations: []*brokerv1alpha1.Reservation{reservation("r", brokerv1alpha1.ReservationQueued, condition("Ready", "False", "Queued", time.Hour, ""))}, want: []string{"Warning Reservation Queued 1"}},
		"a failure, whatever its reason":      {reservations: []*brokerv1alpha1.Reservation{failedWith("Preempted")}, want: []string{"Warning Reservation Preempted 1"}},
		"what is over needs nothing":          {reservations: []*brokerv1alpha1.Reservation{reservation("r", brokerv1alpha1.ReservationReleased, condition("Ready", "False", "Failed", time.Hour, ""))}},
		"a reason that the table lacks":       {reservations: []*brokerv1alpha1.Reservation{reservation("r", brokerv1alpha1.ReservationActive, condition("Ready", "False", "Newer", time.Hour, ""))}},
		"a paused cluster, by its operator":   {clusters: []*brokerv1alpha1.ClusterAdvertisement{cluster("paris", "Paused", 0, condition("Ready", "False", "LendingPaused", time.Hour, ""))}},
		"two conditions with the same reason": {clusters: []*brokerv1alpha1.ClusterAdvertisement{cluster("paris", "Stale", 0, condition("Ready", "False", "Stale", time.Hour, ""), condition("Fresh", "False", "Stale", time.Hour, ""))}, want: []string{"Warning ClusterAdvertisement Stale 1"}},
		"the most urgent comes first": {
			clusters: []*brokerv1alpha1.ClusterAdvertisement{
				cluster("a", "Stale", 0, condition("Ready", "False", "Stale", time.Hour, "")), cluster("b", "Stale", 0, condition("Ready", "False", "Stale", time.Hour, "")),
				cluster("c", "Inactive", 0, condition("Ready", "False", "Inactive", time.Hour, "")),
			},
			want: []string{"Failure ClusterAdvertisement Inactive 1", "Warning ClusterAdvertisement Stale 2"},
		},
		"nobody processed an object": {clusters: []*brokerv1alpha1.ClusterAdvertisement{func() *brokerv1alpha1.ClusterAdvertisement {
			c := cluster("paris", "", 0, condition("Ready", "Unknown", "Pending", 0, "waiting for the broker"))
			c.Status.Conditions[0].LastTransitionTime.Time = time.Unix(0, 0)
			return c
		}()}, want: []string{"Failure ClusterAdvertisement Pending 1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := &Snapshot{At: noon, Broker: &BrokerObjects{Reservations: tc.reservations, Clusters: tc.clusters}}
			var got []string
			for _, a := range s.FindAttention() {
				got = append(got, string(a.Level)+" "+a.Kind+" "+a.Reason+" "+string(rune('0'+len(a.Objects))))
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("attention (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLongestProblemsAreListed(t *testing.T) {
	s := &Snapshot{At: noon, Broker: &BrokerObjects{}}
	for i := range 250 {
		name := fmt.Sprintf("cluster-%03d", i)
		s.Broker.Clusters = append(s.Broker.Clusters, cluster(name, "Stale", 0, condition("Ready", "False", "Stale", time.Hour+time.Duration(i)*time.Second, "")))
	}
	all := s.FindAttention()
	if len(all) != 1 || all[0].Total != 250 || len(all[0].Objects) != 100 || all[0].Objects[0].Name != "cluster-249" || all[0].Objects[99].Name != "cluster-150" {
		t.Fatalf("attention %+v", all)
	}
	status := NewStatus(s)
	if text := DescribeProblems(status, s)[0].Affected; !strings.HasSuffix(text, " and 247 more") {
		t.Errorf("affected: %s", text)
	}
}

func TestUnreadKindsNeedAttention(t *testing.T) {
	cases := map[GapKind]bool{Hidden: false, Unread: true}
	for kind, want := range cases {
		s := &Snapshot{At: noon, Broker: &BrokerObjects{}, Gaps: []Gap{{Kind: kind, Resource: "reservations"}}}
		if got := NewStatus(s).NeedsAttention(); got != want {
			t.Errorf("a gap of kind %s needs attention: %v, want %v", kind, got, want)
		}
	}
}

func TestGapsNameTheNamespacesOfTheirKinds(t *testing.T) {
	got := DescribeGaps([]Gap{
		{Kind: Hidden, Resource: "clusteradvertisements", Namespace: "lenders"}, {Kind: Hidden, Resource: "reservations", Namespace: "team"}, {Kind: Hidden, Resource: "events", Namespace: "team"},
	})
	want := []string{"clusteradvertisements outside namespace lenders: you may not list them", "reservations, events outside namespace team: you may not list them"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A member writes messages. They must neither colour nor move what an administrator reads.
func TestTextsOfMembersCannotControlTheTerminal(t *testing.T) {
	s := busyBroker()
	s.Broker.Clusters[2].Status.Conditions[0].Message = "fine\x1b[2J\nNEEDS ATTENTION: nothing\u202e"
	text := writeStatus(t, s)
	for _, bad := range []string{"\x1b", "\nNEEDS ATTENTION: nothing", "\u202e"} {
		if strings.Contains(text, bad) {
			t.Errorf("the text contains %q:\n%s", bad, text)
		}
	}
}

func TestWriteErrorsAreReturned(t *testing.T) {
	s := busyBroker()
	if err := WriteStatus(failingWriter{}, NewStatus(s), s, plain); !errors.Is(err, errFull) {
		t.Errorf("got %v, want the writer's error", err)
	}
}

var errFull = errors.New("no space left")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errFull }

func BenchmarkStatusOfALargeFleet(b *testing.B) {
	s := largeFleet(1000, 10000)
	for b.Loop() {
		NewStatus(s)
	}
}
