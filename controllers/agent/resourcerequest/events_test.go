package resourcerequest

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

func TestEachFactHasOneEvent(t *testing.T) {
	condition := func(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: status, Reason: reason}
	}
	const yes, no = metav1.ConditionTrue, metav1.ConditionFalse
	for name, tc := range map[string]struct {
		before, after []metav1.Condition
		want          []string
	}{
		"a grant": {
			after: []metav1.Condition{condition("Reserved", yes, "Reserved"), condition("Ready", no, "Peering")},
			want:  []string{"Reserved"},
		},
		"a refusal": {
			after: []metav1.Condition{condition("Reserved", no, "NoCandidate"), condition("Ready", no, "NoCandidate")},
			want:  []string{"NoCandidate"},
		},
		"an end at the end of the duration": {
			after: []metav1.Condition{condition("Ready", no, "Releasing"), condition("Ending", yes, "Expired"), condition("Reserved", no, "Releasing")},
			want:  []string{"Expired"},
		},
		"an end without a cause of its own": {
			after: []metav1.Condition{condition("Ready", no, "Releasing"), condition("Reserved", no, "Releasing")},
			want:  []string{"Releasing"},
		},
		"a recall": {
			after: []metav1.Condition{condition("Recalled", yes, "RecallNotice")},
			want:  []string{"RecallNotice"},
		},
		"the end that a recall announced": {
			before: []metav1.Condition{condition("Recalled", yes, "RecallNotice")},
			after:  []metav1.Condition{condition("Recalled", yes, "RecallNotice"), condition("Ending", yes, "Recalled")},
		},
		"the end that a preemption announced": {
			before: []metav1.Condition{condition("Preempted", yes, "PreemptionNotice")},
			after:  []metav1.Condition{condition("Preempted", yes, "PreemptionNotice"), condition("Ending", yes, "Preempted")},
		},
		"the end of a node whose provider is silent": {
			before: []metav1.Condition{condition("ProviderReachable", no, "ProviderSilent")},
			after:  []metav1.Condition{condition("ProviderReachable", no, "Migrating"), condition("Ending", yes, "Migrating")},
			want:   []string{"Migrating"},
		},
		"a namespace that keeps the request from being ready": {
			after: []metav1.Condition{condition("Offloading", no, "NamespaceNotOptedIn"), condition("Ready", no, "NamespaceNotOptedIn")},
			want:  []string{"NamespaceNotOptedIn"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			rr, before := &agentv1alpha1.ResourceRequest{}, &agentv1alpha1.ResourceRequest{}
			rr.Status.Conditions, before.Status.Conditions = tc.after, tc.before
			var got []string
			for _, c := range changedFacts(rr, before) {
				got = append(got, c.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestLifeOfARequestIsLoggedWithOneSetOfKeys(t *testing.T) {
	b := newBench(t)
	var lines []string
	ctx := log.IntoContext(t.Context(), funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{}))
	reconciled := func(after time.Duration) {
		t.Helper()
		b.clock.Step(after)
		if _, err := b.Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: "mine"}}); err != nil {
			t.Fatal(err)
		}
	}
	reconciled(0)
	b.carriedOut(nodeReady)
	reconciled(time.Second)
	b.delete()
	reconciled(time.Second)
	b.takenDown()
	reconciled(time.Second)

	want := []string{
		`"msg"="request asked" "request"="team/mine" "reservation"="" "provider"="" "node"="" "phase"="Pending" "reason"="Pending"`,
		`"msg"="request changed state" "request"="team/mine" "reservation"="res-0000000001" "provider"="paris" "node"="" "phase"="Reserved" "reason"="Reserved"`,
		`"msg"="request changed state" "request"="team/mine" "reservation"="res-0000000001" "provider"="paris" "node"="res-0000000001-1" "phase"="Active" "reason"="NodeReady"`,
		`"phase"="Releasing" "reason"="Deleted"`,
		`"msg"="request released" "request"="team/mine" "reservation"="res-0000000001"`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(lines), len(want), strings.Join(lines, "\n"))
	}
	for i := range want {
		if !strings.Contains(lines[i], want[i]) {
			t.Errorf("line %d:\n%s\nwant\n%s", i, lines[i], want[i])
		}
	}
}

func TestRefusalStatesEachReasonOnce(t *testing.T) {
	text := explainRefusal(&fault.Error{
		Reason: fault.NoCandidate, Detail: "no cluster can hold cpu=8: berlin: has 4 cpu free, 8 needed",
		Candidates: []v1.Candidate{{ClusterID: "berlin", Message: "has 4 cpu free, 8 needed"}, {ClusterID: "milan", Reason: "Stale"}},
	})
	want := "no cluster can hold cpu=8: berlin: has 4 cpu free, 8 needed; milan: Stale"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
