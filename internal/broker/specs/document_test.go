package specs

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// documented are specs that set nothing, a preset, or nearly every other field.
var documented = map[string]brokerv1alpha1.BrokerConfigSpec{
	"nothing": {},
	"a preset": {
		ScoringPreset: brokerv1alpha1.PresetMultiCriteria, Headroom: 10, Admission: brokerv1alpha1.AdmissionApproved,
	},
	"everything": {
		ScoringWeights: &brokerv1alpha1.ScoringWeights{ResourceAvailability: 60, Cost: 40},
		StaleThreshold: &metav1.Duration{Duration: 5 * time.Minute}, DefaultTTL: &metav1.Duration{Duration: time.Minute}, MaxDuration: &metav1.Duration{Duration: time.Hour},
		Timeouts:          &brokerv1alpha1.Timeouts{Silence: &metav1.Duration{Duration: 5 * time.Minute}},
		MaxPerReservation: brokerv1alpha1.ResourceBounds{corev1.ResourceCPU: resource.MustParse("32")},
		Queue:             &brokerv1alpha1.QueueConfig{MaxLength: new(int32(0)), Paused: true},
		Preemption:        &brokerv1alpha1.PreemptionConfig{Policy: brokerv1alpha1.PreemptLowerPriority},
		PriorityLimits:    []brokerv1alpha1.PriorityLimit{{ClusterID: "rome", MaxPriority: 7}}, DefaultMaxPriority: new(int32(3)),
		Admission:        brokerv1alpha1.AdmissionApproved,
		ApprovedClusters: []brokerv1alpha1.ApprovedCluster{{ClusterID: "rome", KeyFingerprint: "sha256:00"}, {ClusterID: "paris"}},
		DeniedClusters:   []string{"mallory"}, Headroom: 5,
		Drains: []brokerv1alpha1.ClusterDrain{
			{ClusterID: "paris", Reason: "rack 4", Notice: &metav1.Duration{Duration: time.Hour}}, {ClusterID: "berlin", CordonOnly: true},
		},
		ExchangeRates:            &brokerv1alpha1.ExchangeRates{Date: "2026-03-01", Base: "EUR", Rates: map[string]brokerv1alpha1.Price{"USD": "1.1"}},
		OverSubscriptionCeilings: brokerv1alpha1.OverSubscription{corev1.ResourceCPU: "1.5"},
		Visibility:               &brokerv1alpha1.Visibility{Candidates: brokerv1alpha1.CandidatesCounts, HidePrices: true},
		RateLimits:               &brokerv1alpha1.RateLimits{RequestsPerSecond: 3, Burst: 4, InFlight: 5},
		MemberBudget:             &brokerv1alpha1.MemberBudget{Reservations: 9, JournalPerHour: new(resource.MustParse("1Mi")), Connections: 2},
		Accounts:                 &brokerv1alpha1.Accounts{Months: 3, ListPrice: &brokerv1alpha1.Cost{CPUCost: "0.05", Currency: "EUR"}},
		Notifications: []brokerv1alpha1.NotificationChannel{
			{Name: "bus", Events: []string{"*"}, CloudEvents: &brokerv1alpha1.CloudEventsTarget{URL: "https://bus.example/in", SecretRef: brokerv1alpha1.SecretKeyRef{Name: "bus"}}},
			{Name: "chat", Events: []string{"cluster.*"}, GroupWait: &metav1.Duration{}, Slack: &brokerv1alpha1.SlackTarget{SecretRef: brokerv1alpha1.SecretKeyRef{Name: "chat", Key: "hook"}}},
			{Name: "mail", Events: []string{"*"}, Requesters: []string{"rome"}, Email: &brokerv1alpha1.EmailTarget{
				From: "broker@example.com", To: []string{"ops@example.com"}, Server: "mail.example.com:465", SecretRef: &brokerv1alpha1.SecretRef{Name: "mail"},
			}},
		},
	},
}

// The configuration that is read from the journal equals the one that was recorded.
func TestJournalRestoresTheConfiguration(t *testing.T) {
	for name, spec := range documented {
		t.Run(name, func(t *testing.T) {
			want, err := ReadConfig(&spec)
			runtest.Check(t, err)
			document, err := Document(&spec, 7)
			runtest.Check(t, err)
			got, err := ReadDocument(document)
			runtest.Check(t, err)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(access.Policy{})); diff != "" {
				t.Errorf("configuration (-written +read):\n%s", diff)
			}
			if again, err := Document(&spec, 7); err != nil || string(again) != string(document) {
				t.Errorf("written again: %s, %v", again, err)
			}
		})
	}
}

// A merge patch cannot set a value to null, because null deletes the setting.
func TestDocumentsContainNoNull(t *testing.T) {
	for name, spec := range documented {
		document, err := Document(&spec, 0)
		if err != nil || strings.Contains(string(document), "null") || !json.Valid(document) {
			t.Errorf("%s: %s, %v", name, document, err)
		}
	}
}
