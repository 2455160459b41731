package view

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestNamesAreFound(t *testing.T) {
	twice := member()
	elsewhere := &agentv1alpha1.ResourceRequest{ObjectMeta: named("other", "my-request")}
	twice.Member.Requests = append(twice.Member.Requests, elsewhere)
	same := member()
	same.Pods[0].Name = "my-request"
	cases := map[string]struct {
		snapshot        *Snapshot
		name, namespace string
		want            []string
	}{
		"a request":                                 {member(), "my-request", "team", []string{"rreq/my-request"}},
		"a request from another namespace":          {member(), "my-request", "default", []string{"rreq/my-request"}},
		"the namespace decides between two":         {twice, "my-request", "team", []string{"rreq/my-request"}},
		"two in other namespaces are ambiguous":     {twice, "my-request", "default", []string{"rreq/my-request", "rreq/my-request"}},
		"a reservation means its request":           {member(), "res-abc", "team", []string{"rreq/my-request"}},
		"so does a placement, and its node":         {member(), "res-abc-1", "team", []string{"rreq/my-request"}},
		"unless a type is given":                    {member(), "node/res-abc-1", "team", []string{"node/res-abc-1"}},
		"a pod":                                     {member(), "my-pod", "team", []string{"pod/my-pod"}},
		"a pod and a request of the same name":      {same, "my-request", "team", []string{"rreq/my-request", "pod/my-request"}},
		"a type decides between these":              {same, "pod/my-request", "team", []string{"pod/my-request"}},
		"a Reservation by the broker's name":        {busyBroker(), "res-third", "", []string{"rsv/third"}},
		"a cluster":                                 {busyBroker(), "oslo", "", []string{"cadv/oslo"}},
		"nothing has the name":                      {busyBroker(), "nowhere", "", nil},
		"a part of a reservation's name is no name": {member(), "res-ab", "team", nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			query, known := ParseQuery(tc.name, tc.namespace)
			if !known {
				t.Fatalf("%q is of no known type", tc.name)
			}
			var got []string
			for _, r := range tc.snapshot.Find(query) {
				got = append(got, r.Short())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("found (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnknownTypesAreRefused(t *testing.T) {
	if _, known := ParseQuery("deployment/my-request", ""); known {
		t.Error("a deployment is accepted")
	}
}

// tell returns the text of the story of a name, and then the whole story.
func tell(t *testing.T, name string, snapshots ...*Snapshot) string {
	t.Helper()
	query, _ := ParseQuery(name, "team")
	found := snapshots[0].Find(query)
	if len(found) != 1 {
		t.Fatalf("%q means %v", name, found)
	}
	story := NewStory(snapshots, found[0], Related(snapshots, found[0]))
	var out, whole strings.Builder
	runtest.Check(t, errors.Join(WriteStory(&out, story, snapshots[0], plain), WriteWholeStory(&whole, story, snapshots[0], plain)))
	if n := strings.Count(out.String(), "\n"); n > storyLines {
		t.Errorf("the story of %q has %d lines", name, n)
	}
	return out.String() + "\n-o wide\n\n" + whole.String()
}

// providerSide is the cluster that serves the request of member.
func providerSide() *Snapshot {
	p := agentv1alpha1.ProviderInstruction{ObjectMeta: named("agent", "res-abc-1")}
	p.Spec.ReservationName, p.Spec.Placement, p.Spec.RequesterClusterID, p.Spec.Resources = "res-abc", 1, "rome", amounts("cpu", "2")
	p.Status.Phase = agentv1alpha1.InstructionActive
	p.Status.Conditions = []metav1.Condition{
		condition("Granted", "True", "Granted", 30*time.Minute, ""),
		condition("WithinGrant", "False", "ExceedsGrant", time.Minute, "2 cores more than granted"),
	}
	return &Snapshot{Context: "paris", At: noon, Member: &MemberObjects{ProviderInstructions: []*agentv1alpha1.ProviderInstruction{&p}}}
}

func TestStoriesAreComplete(t *testing.T) {
	moved := busyBroker()
	moved.Broker.Reservations[1].Status.Placements = []brokerv1alpha1.Placement{
		{Number: 1, ClusterID: "oslo", State: brokerv1alpha1.PlacementGone, Reason: "ProviderLost"},
		{Number: 2, ClusterID: "paris", State: brokerv1alpha1.PlacementReady},
	}
	unscheduled := member()
	unscheduled.Pods[0].Spec.NodeName = ""
	unscheduled.Pods[0].Spec.NodeSelector[agentv1alpha1.RequestLabel] = "missing"
	unscheduled.Pods[0].Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable", Message: "0/3 nodes are available", LastTransitionTime: ago(time.Minute)}}
	broker := &Snapshot{Context: "broker", At: noon, Broker: &BrokerObjects{Reservations: []*brokerv1alpha1.Reservation{reservation("abc", brokerv1alpha1.ReservationActive, condition("Ready", "True", "Active", time.Minute, ""))}}}
	borrowed := member()
	borrowed.Member.Requests[0].OwnerReferences = []metav1.OwnerReference{{Kind: "CapacityBuffer", Name: "web", Controller: new(true)}}
	cases := map[string]struct {
		name      string
		snapshots []*Snapshot
	}{
		"why-request.txt":    {"my-request", []*Snapshot{member()}},
		"why-both-sides.txt": {"my-request", []*Snapshot{borrowed, broker, providerSide()}},
		"why-queued.txt":     {"rsv/third", []*Snapshot{busyBroker()}},
		"why-moved.txt":      {"rsv/first", []*Snapshot{moved}},
		"why-cluster.txt":    {"oslo", []*Snapshot{busyBroker()}},
		"why-pod.txt":        {"my-pod", []*Snapshot{member()}},
		"why-lost-pod.txt":   {"my-pod", []*Snapshot{unscheduled}},
		"why-node.txt":       {"node/res-abc-1", []*Snapshot{member()}},
		"why-provider.txt":   {"res-abc", []*Snapshot{providerSide()}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) { compareGolden(t, name, tell(t, tc.name, tc.snapshots...)) })
	}
}
