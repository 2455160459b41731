package broker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// allow puts the default configuration into force, with the admission rules of spec.
func (f *fleet) allow(spec brokerv1alpha1.BrokerConfigSpec) {
	config := settings.Default()
	config.Access = access.PolicyOf(&spec)
	f.SetConfig(context.Background(), config)
}

func approvedAlone(id string) brokerv1alpha1.BrokerConfigSpec {
	return brokerv1alpha1.BrokerConfigSpec{
		Admission: brokerv1alpha1.AdmissionApproved, ApprovedClusters: []brokerv1alpha1.ApprovedCluster{{ClusterID: id}},
	}
}

func objectRequest(requester string) requests.Request {
	return requests.Request{Request: ledger.Request{
		Requester: requester, Amounts: quantity.Amounts{"cpu": 1000, "memory": 1 << 30},
		Object: &ledger.ObjectRef{Namespace: "default", Name: "r", UID: requester},
	}}
}

func TestDeniedClusterLendsNothingNew(t *testing.T) {
	cases := map[string]struct {
		spec brokerv1alpha1.BrokerConfigSpec
		want string
	}{
		"nobody is":                       {want: "paris"},
		"a denied cluster":                {spec: brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"paris"}}, want: "berlin"},
		"a cluster that was not approved": {spec: approvedAlone("berlin"), want: "berlin"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				f.advertise("paris", "64", "256Gi")
				f.advertise("berlin", "8", "16Gi")
				// Each cluster serves one of these, so a larger share of berlin is in use and paris
				// would rank first.
				f.reserve("rome", "before", request("4", "8Gi"))
				f.reserve("rome", "before-2", request("4", "8Gi"))
				f.allow(tc.spec)
				if got := target(f.reserve("rome", "request-1", request("1", "1Gi"))); got != tc.want {
					t.Errorf("reserved from %s, want %s", got, tc.want)
				}
				f.allow(brokerv1alpha1.BrokerConfigSpec{})
				if got := target(f.reserve("rome", "request-2", request("20", "1Gi"))); got != "paris" {
					t.Errorf("admitted again: reserved from %s, want paris", got)
				}
			})
		})
	}
}

func TestDeniedProviderKeepsPlacementsAndShowsTheReason(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		r := f.reserve("rome", "request-1", request("2", "4Gi"))
		f.mustReport("paris", r, 1, provider, "Acknowledged")
		f.allow(brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"paris"}})
		if got := target(f.get("rome", r.Name)); got != "paris" {
			t.Errorf("what was lent moved to %q", got)
		}
		_, err := f.RequestReservation(context.Background(), "rome", "request-2", request("1", "1Gi"))
		why, ok := errors.AsType[*fault.Error](err)
		if !ok || why.Reason != fault.NoCandidate || why.Rejected["Denied"] != 1 {
			t.Errorf("a new request: %v", err)
		}
	})
}

func TestReservationsStayOnDeniedProviderThatMayNotCall(t *testing.T) {
	for name, spec := range map[string]brokerv1alpha1.BrokerConfigSpec{
		"denied":       {DeniedClusters: []string{"paris"}},
		"not approved": {Admission: brokerv1alpha1.AdmissionApproved, ApprovedClusters: []brokerv1alpha1.ApprovedCluster{{ClusterID: "rome"}, {ClusterID: "berlin"}}},
	} {
		t.Run(name, func(t *testing.T) {
			inFleet(t, func(f *fleet) {
				r := f.servedByParis()
				f.allow(spec)
				f.pass(2*settings.Default().StaleThreshold, "paris")
				f.wantPlacements(r, "while paris is shut out", untouched)
				f.allow(brokerv1alpha1.BrokerConfigSpec{})
				f.pass(staleAfter-time.Second, "paris")
				f.wantPlacements(r, "while paris has time to call", untouched)
				f.pass(2*time.Second, "paris")
				f.wantPlacements(r, "once paris could have called", besideLost)
			})
		})
	}
}

func TestHealingContinuesForLostProviderThatIsDenied(t *testing.T) {
	inFleet(t, func(f *fleet) {
		r := f.servedByParis()
		f.pass(staleAfter+time.Second, "paris")
		f.allow(brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"paris"}})
		f.mustReport("berlin", r, 2, provider, v1.StatusReportStateAcknowledged)
		f.mustReport("rome", r, 2, consumer, v1.StatusReportStateReady)
		synctest.Wait()
		f.wantPlacements(r, "once berlin serves", "Active: paris=Withdrawing(ProviderLost) berlin=Ready")
	})
}

func TestDeniedRequesterGetsNothing(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.allow(brokerv1alpha1.BrokerConfigSpec{DeniedClusters: []string{"rome"}})
		_, overREST := f.RequestReservation(context.Background(), "rome", "request-1", request("1", "1Gi"))
		_, withObject := f.ReserveObject(context.Background(), objectRequest("rome"))
		for how, err := range map[string]error{"REST": overREST, "object": withObject} {
			if fault.ReasonOf(err) != fault.ClusterDenied || !strings.Contains(err.Error(), "deniedClusters") {
				t.Errorf("%s: %v", how, err)
			}
		}
		f.wantAvailable("paris", "16 64Gi")
	})
}

// Approval applies neither to a requester, which may be a label that names no cluster, nor to an
// advertisement, which an administrator may have written.
func TestApprovalIsForClustersWithAnAgent(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.allow(approvedAlone("rome"))
		offer := &ledger.Offer{
			ClusterID: "by-hand", Capacity: quantity.Amounts{"cpu": 8000, "memory": 8 << 30}, Allocatable: quantity.Amounts{"cpu": 8000, "memory": 8 << 30},
			Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Namespace: "default", Name: "by-hand", UID: "1"}, Digest: "1"},
		}
		runtest.Check(t, f.OfferManifest(context.Background(), offer))
		view, err := f.ReserveObject(context.Background(), objectRequest("user-team"))
		if err != nil || view.Provider != "by-hand" {
			t.Errorf("got %+v, %v", view, err)
		}
	})
}

func TestDecisionsWaitForConfiguration(t *testing.T) {
	inFleet(t, func(f *fleet) {
		f.advertise("paris", "16", "64Gi")
		f.mu.Lock()
		f.configured = false
		f.mu.Unlock()
		f.wantRefusal("rome", "request-1", request("1", "1Gi"), fault.Unavailable)
	})
}

// A manifest that was deleted and created again for another cluster counts for the new cluster
// only.
func TestManifestDescribesOneCluster(t *testing.T) {
	inFleet(t, func(f *fleet) {
		offer := func(id, uid string) {
			t.Helper()
			cpu := quantity.Amounts{"cpu": 8000}
			err := f.OfferManifest(context.Background(), &ledger.Offer{
				ClusterID: id, Capacity: cpu, Allocatable: cpu,
				Source: &ledger.Manifest{ObjectRef: ledger.ObjectRef{Namespace: "default", Name: "site", UID: uid}, Digest: uid},
			})
			runtest.Check(t, err)
		}
		offer("oslo", "1")
		offer("bergen", "2")
		id, uid, err := f.ClusterOfManifest(context.Background(), "default", "site")
		if err != nil || id != "bergen" || uid != "2" {
			t.Errorf("the object speaks for %q with %q, %v", id, uid, err)
		}
		if oslo, err := f.Cluster(context.Background(), "oslo"); err != nil || len(oslo.Allocatable) > 0 {
			t.Errorf("oslo still offers %v, %v", oslo.Allocatable, err)
		}
		runtest.Check(t, f.WithdrawManifest(context.Background(), "bergen", "2"))
		if id, _, err := f.ClusterOfManifest(context.Background(), "default", "site"); err != nil || id != "" {
			t.Errorf("it was deleted, and speaks for %q, %v", id, err)
		}
	})
}
