package specs

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
)

// Keys of a configuration document that the spec of a BrokerConfig does not have, or has with other
// content.
const (
	generationKey = "generation"
	approvedKey   = "approvedClusters"
	deniedKey     = "deniedClusters"
	limitsKey     = "priorityLimits"
	drainsKey     = "drains"
	channelsKey   = "notifications"
)

// Document returns the configuration as the journal stores it: metadata.generation, and the spec
// with every default filled in, so that it means the same to every version of the broker. Lists of
// clusters and channels become maps, so that a change of one entry causes only a small difference.
func Document(spec *brokerv1alpha1.BrokerConfigSpec, generation int64) (json.RawMessage, error) {
	config, err := ReadConfig(spec)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(withDefaults(spec, &config))
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("encoding the configuration: %w", err)
	}
	out[generationKey] = generation
	out[approvedKey] = mapOf(spec.ApprovedClusters, func(a brokerv1alpha1.ApprovedCluster) (string, string) { return a.ClusterID, a.KeyFingerprint })
	out[deniedKey] = mapOf(spec.DeniedClusters, func(id string) (string, bool) { return id, true })
	out[limitsKey] = mapOf(spec.PriorityLimits, func(l brokerv1alpha1.PriorityLimit) (string, int32) { return l.ClusterID, l.MaxPriority })
	if len(spec.Drains) > 0 {
		out[drainsKey] = mapOf(spec.Drains, func(d brokerv1alpha1.ClusterDrain) (string, brokerv1alpha1.ClusterDrain) { return d.ClusterID, d })
	}
	if len(spec.Notifications) > 0 {
		out[channelsKey] = mapOf(spec.Notifications, func(c brokerv1alpha1.NotificationChannel) (string, brokerv1alpha1.NotificationChannel) {
			return c.Name, c
		})
	}
	return json.Marshal(out)
}

// mapOf returns a list as a map. entry returns the key and the value of an element.
func mapOf[E, V any](list []E, entry func(E) (string, V)) map[string]V {
	out := make(map[string]V, len(list))
	for _, e := range list {
		key, value := entry(e)
		out[key] = value
	}
	return out
}

func withDefaults(spec *brokerv1alpha1.BrokerConfigSpec, c *settings.Config) *brokerv1alpha1.BrokerConfigSpec {
	out := spec.DeepCopy()
	if out.ScoringPreset == "" && out.ScoringWeights == nil {
		out.ScoringPreset = brokerv1alpha1.ScoringPreset(decision.DefaultPreset)
	}
	out.StaleThreshold, out.DefaultTTL = &metav1.Duration{Duration: c.StaleThreshold}, &metav1.Duration{Duration: c.DefaultTTL}
	out.Timeouts = &brokerv1alpha1.Timeouts{
		Acknowledgement: &metav1.Duration{Duration: c.Timeouts.Placement.Acknowledge}, Readiness: &metav1.Duration{Duration: c.Timeouts.Placement.Ready},
		Network: &metav1.Duration{Duration: c.Timeouts.Placement.Network}, Silence: &metav1.Duration{Duration: c.Timeouts.Silence},
		Healing: &metav1.Duration{Duration: c.Timeouts.Healing}, NotReady: &metav1.Duration{Duration: c.Timeouts.NotReady},
	}
	out.Queue = &brokerv1alpha1.QueueConfig{MaxLength: new(int32(c.Queue.MaxLength)), DefaultTimeout: &metav1.Duration{Duration: c.Queue.Timeout}, Paused: c.Queue.Paused}
	out.Preemption = &brokerv1alpha1.PreemptionConfig{Policy: brokerv1alpha1.PreemptNever, GracePeriod: &metav1.Duration{Duration: c.Preemption.Grace}}
	if c.Preemption.LowerPriority {
		out.Preemption.Policy = brokerv1alpha1.PreemptLowerPriority
	}
	out.MemberBudget = &brokerv1alpha1.MemberBudget{
		Reservations: int32(c.Budget.Reservations), Waiting: int32(c.Budget.Waiting),
		JournalPerHour: resource.NewQuantity(c.Budget.JournalPerHour, resource.BinarySI),
	}
	if spec.MemberBudget != nil {
		out.MemberBudget.Connections = spec.MemberBudget.Connections
	}
	accounts := brokerv1alpha1.Accounts{Days: int32(c.Accounts.Days), Months: int32(c.Accounts.Months)}
	if spec.Accounts != nil {
		accounts.ListPrice = spec.Accounts.ListPrice
	}
	out.Accounts = &accounts
	return out
}

// ReadDocument returns the configuration in a document that Document has written.
func ReadDocument(document json.RawMessage) (settings.Config, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(document, &fields); err != nil {
		return settings.Config{}, fmt.Errorf("reading a configuration of the journal: %w", err)
	}
	approved, denied, limits, drains := map[string]string{}, map[string]bool{}, map[string]int32{}, map[string]brokerv1alpha1.ClusterDrain{}
	channels := map[string]brokerv1alpha1.NotificationChannel{}
	for key, into := range map[string]any{approvedKey: &approved, deniedKey: &denied, limitsKey: &limits, drainsKey: &drains, channelsKey: &channels} {
		if text := fields[key]; text != nil {
			if err := json.Unmarshal(text, into); err != nil {
				return settings.Config{}, fmt.Errorf("reading %s of a configuration of the journal: %w", key, err)
			}
		}
		delete(fields, key)
	}
	delete(fields, generationKey)
	rest, err := json.Marshal(fields)
	if err != nil {
		return settings.Config{}, err
	}
	var spec brokerv1alpha1.BrokerConfigSpec
	if err := json.Unmarshal(rest, &spec); err != nil {
		return settings.Config{}, fmt.Errorf("reading a configuration of the journal: %w", err)
	}
	for id, key := range approved {
		spec.ApprovedClusters = append(spec.ApprovedClusters, brokerv1alpha1.ApprovedCluster{ClusterID: id, KeyFingerprint: key})
	}
	for id := range denied {
		spec.DeniedClusters = append(spec.DeniedClusters, id)
	}
	for id, most := range limits {
		spec.PriorityLimits = append(spec.PriorityLimits, brokerv1alpha1.PriorityLimit{ClusterID: id, MaxPriority: most})
	}
	for _, d := range drains {
		spec.Drains = append(spec.Drains, d)
	}
	for _, name := range slices.Sorted(maps.Keys(channels)) {
		spec.Notifications = append(spec.Notifications, channels[name])
	}
	return ReadConfig(&spec)
}
