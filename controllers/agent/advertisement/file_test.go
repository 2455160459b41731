package advertisement

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// settingsOf reads a configuration file with this text; without text there is no file.
func settingsOf(t *testing.T, text string) *FileSettings {
	t.Helper()
	if text == "" {
		return &FileSettings{}
	}
	path := filepath.Join(t.TempDir(), "agent.yaml")
	runtest.Check(t, os.WriteFile(path, []byte(text), 0o600))
	file, err := configuration.Open(path, nil, clocktesting.NewFakeClock(metav1.Now().Time), logr.Discard())
	runtest.Check(t, err)
	return &FileSettings{File: file}
}

const someFile = `apiVersion: agent.fluidos.eu/v1alpha1
kind: AgentConfiguration
cluster: {region: eu, zone: eu-1, labels: {tier: gold}, claims: {availability: 99.9}}
offer: {resources: {cpu: {cap: 4, overSubscription: 2}, memory: {overSubscription: 3}}}
prices: {currency: EUR, cpuCost: 1, memoryCost: 2}
`

func TestAdvertisementSaysWhatTheFileSays(t *testing.T) {
	cases := map[string]struct {
		file string
		want Offered
	}{
		"no file": {},
		"every section": {
			file: someFile,
			want: Offered{
				Topology: &brokerv1alpha1.Topology{Region: "eu", Zone: "eu-1"},
				Labels:   map[string]brokerv1alpha1.LabelValue{"tier": "gold"},
				Claims:   map[string]brokerv1alpha1.LabelValue{"availability": "99.9"},
				Cost:     &brokerv1alpha1.Cost{CPUCost: "1", MemoryCost: "2", Currency: "EUR"},
				Rules:    offering.Rules{Cap: quantity.Amounts{"cpu": 4000}, Ratios: quantity.Ratios{"cpu": 200, "memory": 300}},
			},
		},
		"a region alone leaves the rest to the Advertisement": {
			file: "apiVersion: agent.fluidos.eu/v1alpha1\nkind: AgentConfiguration\ncluster: {region: eu}\n",
			want: Offered{Topology: &brokerv1alpha1.Topology{Region: "eu"}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := settingsOf(t, tc.file).Offered()
			sameAmounts := cmp.Comparer(func(a, b quantity.Amounts) bool { return a.Equal(b) })
			samePercentages := cmp.Comparer(func(a, b offering.Percentages) bool { return a.All == b.All && len(a.Of) == len(b.Of) })
			if diff := cmp.Diff(tc.want, got, sameAmounts, samePercentages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionConfiguredShowsTheStateOfTheFile(t *testing.T) {
	if c := settingsOf(t, "").Conditions(); c != nil {
		t.Errorf("without a file: %+v", c)
	}
	if c := settingsOf(t, someFile).Conditions(); len(c) != 1 || c[0].Status != metav1.ConditionTrue || c[0].Reason != agentv1alpha1.ReasonConfigured {
		t.Errorf("with a good one: %+v", c)
	}
}
