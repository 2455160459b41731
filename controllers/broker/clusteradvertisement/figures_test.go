package clusteradvertisement

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/offers"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

func TestReadyTellsWhetherTheClusterTakesReservations(t *testing.T) {
	active := func(change func(*broker.ClusterView)) broker.ClusterView {
		v := broker.ClusterView{Phase: term.Active}
		change(&v)
		return v
	}
	for name, tc := range map[string]struct {
		view                 broker.ClusterView
		reason, fresh, phase string
	}{
		"it advertises":           {active(func(*broker.ClusterView) {}), "Active", "Active", "Active"},
		"it is denied":            {active(func(v *broker.ClusterView) { v.Denied = true }), "Denied", "Active", "Denied"},
		"it is denied and silent": {broker.ClusterView{Phase: term.Stale, Denied: true}, "Denied", "Stale", "Denied"},
		"it is silent":            {broker.ClusterView{Phase: term.Inactive}, "Inactive", "Inactive", "Inactive"},
		"it is paused for everyone": {active(func(v *broker.ClusterView) {
			v.Standing = &decision.Standing{Paused: decision.Pause{Why: "3 failures in a row"}}
		}), "Paused", "Active", "Paused"},
		"it is the last resort": {active(func(v *broker.ClusterView) {
			v.Standing = &decision.Standing{Paused: decision.Pause{Why: "3 failures in a row", LastResort: true}}
		}), "Active", "Active", "Active"},
		"it is paused for some": {active(func(v *broker.ClusterView) {
			v.Standing = &decision.Standing{PausedFor: map[string]decision.Pause{"rome": {Why: "3 failures in a row"}}}
		}), "Active", "Active", "Active"},
		"it does not lend": {active(func(v *broker.ClusterView) { v.Offer = ledger.Offer{Lending: &lending.Policy{Paused: true}} }), "LendingPaused", "Active", "Paused"},
		"its Liqo does not work": {active(func(v *broker.ClusterView) {
			v.Offer = ledger.Offer{Lending: &lending.Policy{Unready: "LiqoNotRunning"}}
		}), "ProviderNotReady", "Active", "Paused"},
		"its agent never peers": {active(func(v *broker.ClusterView) {
			v.Offer = ledger.Offer{Lending: &lending.Policy{Unready: lending.NotPeering}}
		}), "Active", "Active", "Active"},
		"its agent is being uninstalled": {active(func(v *broker.ClusterView) {
			v.Offer = ledger.Offer{Lending: &lending.Policy{Unready: lending.Uninstalling}}
		}), "ProviderLeaving", "Active", "Paused"},
		"its agent was uninstalled": {broker.ClusterView{
			Phase: term.Stale, Offer: ledger.Offer{Lending: &lending.Policy{Unready: lending.Uninstalling}},
		}, "ProviderLeaving", "Stale", "Stale"},
		"it has to announce": {active(func(v *broker.ClusterView) { v.Awaited = "the broker was restored" }), "AwaitingHoldings", "AwaitingHoldings", "Paused"},
	} {
		t.Run(name, func(t *testing.T) {
			status := statusOf(&tc.view, &brokerv1alpha1.ClusterAdvertisement{})
			ready := meta.FindStatusCondition(status.Conditions, brokerv1alpha1.ConditionReady)
			fresh := meta.FindStatusCondition(status.Conditions, brokerv1alpha1.ConditionFresh)
			takes := tc.reason == "Active"
			if (ready.Status == metav1.ConditionTrue) != takes || status.Active != takes || strings.Contains(ready.Message, "takes new reservations") != takes {
				t.Errorf("Ready is %s (%s), active: %t", ready.Status, ready.Message, status.Active)
			}
			if status.Phase != tc.phase {
				t.Errorf("phase is %s, want %s", status.Phase, tc.phase)
			}
			if ready.Reason != tc.reason || fresh.Reason != tc.fresh || strings.Contains(fresh.Message, "takes") {
				t.Errorf("Ready because of %s, Fresh because of %s: %s", ready.Reason, fresh.Reason, fresh.Message)
			}
		})
	}
}

func TestStatusShowsPendingDemand(t *testing.T) {
	view := broker.ClusterView{Phase: term.Active}
	if status := statusOf(&view, &brokerv1alpha1.ClusterAdvertisement{}); status.Pending != nil || status.PendingSince != nil {
		t.Errorf("pending is %v since %v, want nothing", status.Pending, status.PendingSince)
	}
	view.Pending = offers.Demand{Requests: quantity.Amounts{"pods": 3, "cpu": 6000}, Since: time.Unix(500, 7)}
	status := statusOf(&view, &brokerv1alpha1.ClusterAdvertisement{})
	want := corev1.ResourceList{"pods": resource.MustParse("3"), "cpu": resource.MustParse("6")}
	if diff := cmp.Diff(want, status.Pending); diff != "" {
		t.Errorf("pending (-want +got):\n%s", diff)
	}
	if status.PendingSince == nil || !status.PendingSince.Time.Equal(time.Unix(500, 0)) {
		t.Errorf("pending since %v, want 500", status.PendingSince)
	}
}
