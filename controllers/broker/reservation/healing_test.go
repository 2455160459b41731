package reservation

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/views"
)

func TestStatusShowsTheServingProviderDuringATakeover(t *testing.T) {
	const at = ledger.Instant(time.Second)
	paris := ledger.Placement{Number: 1, Provider: "paris", AcknowledgedAt: at, Ready: true, EverReady: true}
	berlin := ledger.Placement{Number: 2, Provider: "berlin"}
	ready := ledger.Placement{Number: 2, Provider: "berlin", AcknowledgedAt: at, Ready: true, EverReady: true}
	left, declined := paris, berlin
	left.Withdrawn, left.Ready = ledger.ProviderLost, false
	declined.Withdrawn = ledger.ProviderBack
	recalled, removed := left, left
	recalled.Withdrawn, removed.Withdrawn = ledger.Recalled, ledger.Forgotten
	waiting := berlin
	waiting.AcknowledgedAt = at
	late := waiting
	late.Withdrawn = string(ledger.DueAcknowledgement)

	type shown struct{ Target, Acknowledged, Reachable, Event string }
	type step struct {
		lost       string
		placements []ledger.Placement
		want       shown
	}
	cases := map[string][]step{
		"it moves": {
			{"", []ledger.Placement{paris}, shown{"paris", "True", "", "Normal Active"}},
			{"paris", []ledger.Placement{paris}, shown{"paris", "True", "ProviderSilent", "Warning ProviderSilent"}},
			{"paris", []ledger.Placement{paris, berlin}, shown{"paris", "True", "Migrating", "Warning Migrating"}},
			{"paris", []ledger.Placement{paris, ready}, shown{"berlin", "True", "Migrating", ""}},
			{"", []ledger.Placement{left, ready}, shown{"berlin", "True", "Migrated", "Normal Migrated"}},
			{"", []ledger.Placement{left, ready}, shown{"berlin", "True", "Migrated", ""}},
		},
		"its provider is back": {
			{"paris", []ledger.Placement{paris, berlin}, shown{"paris", "True", "Migrating", "Warning Migrating"}},
			{"", []ledger.Placement{paris, declined}, shown{"paris", "True", "ProviderBack", "Normal ProviderBack"}},
		},
		"its provider is back, and the next one was too late": {
			{"paris", []ledger.Placement{paris, berlin}, shown{"paris", "True", "Migrating", "Warning Migrating"}},
			{"", []ledger.Placement{paris, late}, shown{"paris", "True", "ProviderBack", "Normal ProviderBack the agent of paris has"}},
		},
		"its provider called it back before it fell silent": {
			{"paris", []ledger.Placement{paris, berlin}, shown{"paris", "True", "Migrating", "Warning Migrating"}},
			{"", []ledger.Placement{recalled, ready}, shown{"berlin", "True", "Migrated", "Normal Migrated berlin"}},
		},
		"its provider was silent, and was removed from the broker": {
			{"paris", []ledger.Placement{paris}, shown{"paris", "True", "ProviderSilent", "Warning ProviderSilent"}},
			{"", []ledger.Placement{removed, waiting}, shown{"berlin", "True", "Migrated", "Normal Migrated berlin has taken over from paris, which was removed from the broker"}},
		},
	}
	for name, steps := range cases {
		t.Run(name, func(t *testing.T) {
			recorder := events.NewFakeRecorder(8)
			r, obj := &Reconciler{recorder: recorder}, &brokerv1alpha1.Reservation{}
			for i, s := range steps {
				view := &views.Reservation{
					Reservation:      ledger.Reservation{Reserve: ledger.Reserve{Name: "res-1", Request: ledger.Request{Requester: "rome"}}, Placements: s.placements},
					ProviderHasAgent: true, RequesterHasAgent: true, Phase: ledger.Active, Lost: s.lost,
					PlacementPhases: make([]ledger.PlacementPhase, len(s.placements)),
				}
				view.Provider = view.Current().Provider
				if s.lost != "" {
					view.LostSince = at.Time()
				}
				before := obj.Status
				obj.Status = statusOf(view, obj)
				r.recordEvents(before, obj)
				got := shown{Target: obj.Status.TargetClusterID}
				if c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionAcknowledged); c != nil {
					got.Acknowledged = string(c.Status)
				}
				if c := meta.FindStatusCondition(obj.Status.Conditions, brokerv1alpha1.ConditionProviderReachable); c != nil {
					got.Reachable = c.Reason
				}
				if len(recorder.Events) > 0 {
					event := <-recorder.Events
					got.Event = event[:min(len(event), len(s.want.Event))]
				}
				for len(recorder.Events) > 0 {
					<-recorder.Events
				}
				if diff := cmp.Diff(s.want, got); diff != "" {
					t.Errorf("step %d (-want +got):\n%s", i+1, diff)
				}
			}
		})
	}
}
