package access

import (
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func approved(ids ...string) []brokerv1alpha1.ApprovedCluster {
	var out []brokerv1alpha1.ApprovedCluster
	for _, id := range ids {
		out = append(out, brokerv1alpha1.ApprovedCluster{ClusterID: id})
	}
	return out
}

func TestPolicyCheck(t *testing.T) {
	cases := map[string]struct {
		spec brokerv1alpha1.BrokerConfigSpec
		// want is the reason why rome is refused; "" if rome is admitted.
		want fault.Reason
	}{
		"an empty policy admits every cluster": {},
		"admission is open by default":         {spec: brokerv1alpha1.BrokerConfigSpec{Admission: brokerv1alpha1.AdmissionOpen}},
		"open admission admits a cluster that is not on the approved list": {
			spec: brokerv1alpha1.BrokerConfigSpec{ApprovedClusters: approved("paris")},
		},
		"an approved cluster is admitted when approval is required": {
			spec: brokerv1alpha1.BrokerConfigSpec{Admission: brokerv1alpha1.AdmissionApproved, ApprovedClusters: approved("rome")},
		},
		"an unapproved cluster is refused when approval is required": {
			spec: brokerv1alpha1.BrokerConfigSpec{Admission: brokerv1alpha1.AdmissionApproved, ApprovedClusters: approved("paris")},
			want: fault.ClusterNotApproved,
		},
		"an empty approved list refuses every cluster when approval is required": {
			spec: brokerv1alpha1.BrokerConfigSpec{Admission: brokerv1alpha1.AdmissionApproved}, want: fault.ClusterNotApproved,
		},
		"a denied cluster is refused": {
			spec: brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"rome"}}, want: fault.ClusterDenied,
		},
		"a cluster that is denied and approved is refused": {
			spec: brokerv1alpha1.BrokerConfigSpec{
				Admission: brokerv1alpha1.AdmissionApproved, ApprovedClusters: approved("rome"), DeniedClusters: []string{"rome"},
			},
			want: fault.ClusterDenied,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := PolicyOf(&tc.spec).Check("rome")
			if got := fault.ReasonOf(err); got != tc.want {
				t.Errorf("Check: %v (%q), want reason %q", err, got, tc.want)
			}
			if err != nil && !strings.Contains(err.Error(), `"rome"`) {
				t.Errorf("error %q does not name the cluster", err)
			}
		})
	}
}

func TestApprovesKeyMatchesClusterAndKey(t *testing.T) {
	p := PolicyOf(&brokerv1alpha1.BrokerConfigSpec{ApprovedClusters: []brokerv1alpha1.ApprovedCluster{
		{ClusterID: "rome", KeyFingerprint: "sha256:aa"}, {ClusterID: "paris"},
	}})
	cases := map[string]struct {
		cluster, key string
		want         bool
	}{
		"the cluster and its key":                               {"rome", "sha256:aa", true},
		"another key":                                           {"rome", "sha256:bb", false},
		"another cluster with the same key":                     {"berlin", "sha256:aa", false},
		"a cluster that is approved without a key":              {"paris", "sha256:aa", false},
		"an empty fingerprint does not match an empty approval": {"paris", "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := p.ApprovesKey(tc.cluster, tc.key); got != tc.want {
				t.Errorf("ApprovesKey(%q, %q) = %v", tc.cluster, tc.key, got)
			}
		})
	}
}

func TestContradictionsListsClustersApprovedAndDenied(t *testing.T) {
	p := PolicyOf(&brokerv1alpha1.BrokerConfigSpec{
		ApprovedClusters: approved("rome", "paris", "berlin"), DeniedClusters: []string{"paris", "oslo", "berlin"},
	})
	if diff := cmp.Diff([]string{"berlin", "paris"}, p.Contradictions()); diff != "" {
		t.Errorf("contradictions (-want +got):\n%s", diff)
	}
}

func deny(ids ...string) Policy {
	return PolicyOf(&brokerv1alpha1.BrokerConfigSpec{DeniedClusters: ids})
}

func TestGateRefusesEveryoneBeforeFirstPolicy(t *testing.T) {
	g := NewGate()
	if _, err := g.Enter("rome", nil); fault.ReasonOf(err) != fault.Unavailable {
		t.Errorf("Enter: %v, want Unavailable", err)
	}
	if err := g.Check("rome"); fault.ReasonOf(err) != fault.Unavailable {
		t.Errorf("Check: %v, want Unavailable", err)
	}
}

func TestGateShutsRejectedConnectionOnce(t *testing.T) {
	g := NewGate()
	g.Set(Policy{})
	var told []string
	enter := func(id string) func() {
		t.Helper()
		leave, err := g.Enter(id, func(err error) { told = append(told, id+" "+string(fault.ReasonOf(err))) })
		runtest.Check(t, err)
		return leave
	}
	enter("rome")
	leaveRome := enter("rome")
	leave := enter("paris")
	leaveRome()
	g.Set(deny("rome", "oslo"))
	if diff := cmp.Diff([]string{"rome ClusterDenied"}, told); diff != "" {
		t.Errorf("shut connections (-want +got):\n%s", diff)
	}
	if _, err := g.Enter("rome", nil); fault.ReasonOf(err) != fault.ClusterDenied {
		t.Errorf("Enter of a denied cluster: %v", err)
	}
	g.Set(deny("rome"))
	leave()
	g.Set(deny("paris"))
	if len(told) != 1 {
		t.Errorf("shut connections %q; want each once, and none that left", told)
	}
	enter("rome")
}

// However Set and Enter interleave, no connection stays open that the last policy rejects.
func TestGateKeepsNoRejectedConnectionAcrossPolicyChanges(t *testing.T) {
	g := NewGate()
	g.Set(Policy{})
	var mu sync.Mutex
	inside := map[int]bool{}
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			mu.Lock()
			inside[i] = true
			mu.Unlock()
			out := func(error) {
				mu.Lock()
				defer mu.Unlock()
				delete(inside, i)
			}
			if _, err := g.Enter("rome", out); err != nil {
				out(err)
			}
		})
	}
	group.Go(func() { g.Set(deny("rome")) })
	group.Wait()
	if len(inside) != 0 {
		t.Errorf("%d callers of a denied cluster are still inside", len(inside))
	}
}
