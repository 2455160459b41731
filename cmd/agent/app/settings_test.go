package app

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/config"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// termsOf creates settings from flags and, if text is not empty, a configuration file.
func termsOf(t *testing.T, text string, args ...string) *settings {
	t.Helper()
	out := &settings{options: defaultOptions()}
	cmd := Command()
	cmd.ResetFlags()
	out.bindFlags(cmd.Flags())
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	if text == "" {
		return out
	}
	path := filepath.Join(t.TempDir(), "agent.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if out.file, err = configuration.Open(path, clocktesting.NewFakeClock(metav1.Now().Time), logr.Discard()); err != nil {
		t.Fatal(err)
	}
	out.configFile = path
	return out
}

const someFile = `apiVersion: agent.fluidos.eu/v1alpha1
kind: AgentConfiguration
cluster: {region: file, zone: file-1, labels: {of: file}}
offer: {resources: {cpu: {cap: 4, overSubscription: 2}, memory: {overSubscription: 3}}}
prices: {currency: EUR, cpuCost: 1, memoryCost: 2}
`

// TestFlagsOverrideTheFile sets a field in both sources: the flag replaces the whole field of the
// file.
func TestFlagsOverrideTheFile(t *testing.T) {
	labels := func(of string) map[string]brokerv1alpha1.LabelValue {
		return map[string]brokerv1alpha1.LabelValue{"of": brokerv1alpha1.LabelValue(of)}
	}
	capped := quantity.Amounts{"cpu": 4000}
	cases := map[string]struct {
		file string
		args []string
		want advertisement.Offered
	}{
		"neither": {},
		"flags alone": {
			args: []string{"--region=flag", "--cluster-labels=of=flag", "--claims=a=b", "--over-subscription=cpu=1.5", "--cpu-cost=3", "--currency=USD"},
			want: advertisement.Offered{
				Topology: &brokerv1alpha1.Topology{Region: "flag"}, Labels: labels("flag"), Claims: map[string]brokerv1alpha1.LabelValue{"a": "b"},
				Cost: &brokerv1alpha1.Cost{CPUCost: "3", Currency: "USD"}, Terms: offering.Terms{Ratios: quantity.Ratios{"cpu": 150}},
			},
		},
		"the file alone": {
			file: someFile,
			want: advertisement.Offered{
				Topology: &brokerv1alpha1.Topology{Region: "file", Zone: "file-1"}, Labels: labels("file"),
				Cost:  &brokerv1alpha1.Cost{CPUCost: "1", MemoryCost: "2", Currency: "EUR"},
				Terms: offering.Terms{Cap: capped, Ratios: quantity.Ratios{"cpu": 200, "memory": 300}},
			},
		},
		"both": {
			file: someFile,
			args: []string{"--zone=flag-1", "--cluster-labels=of=flag", "--over-subscription=cpu=1.5", "--cpu-cost=3", "--currency=USD"},
			want: advertisement.Offered{
				Topology: &brokerv1alpha1.Topology{Region: "file", Zone: "flag-1"}, Labels: labels("flag"),
				Cost:  &brokerv1alpha1.Cost{CPUCost: "3", Currency: "USD"},
				Terms: offering.Terms{Cap: capped, Ratios: quantity.Ratios{"cpu": 150}},
			},
		},
		"a flag that says nothing": {
			file: someFile, args: []string{"--region=", "--zone="},
			want: advertisement.Offered{
				Labels: labels("file"), Cost: &brokerv1alpha1.Cost{CPUCost: "1", MemoryCost: "2", Currency: "EUR"},
				Terms: offering.Terms{Cap: capped, Ratios: quantity.Ratios{"cpu": 200, "memory": 300}},
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := termsOf(t, tc.file, tc.args...).Terms()
			sameAmounts := cmp.Comparer(func(a, b quantity.Amounts) bool { return a.Equal(b) })
			samePercentages := cmp.Comparer(func(a, b offering.Percentages) bool { return a.All == b.All && len(a.Of) == len(b.Of) })
			if diff := cmp.Diff(tc.want, got, sameAmounts, samePercentages); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestConditionConfiguredShowsTheStateOfTheFile(t *testing.T) {
	if c := termsOf(t, "").Conditions(); c != nil {
		t.Errorf("without a file: %+v", c)
	}
	if c := termsOf(t, someFile).Conditions(); len(c) != 1 || c[0].Status != metav1.ConditionTrue || c[0].Reason != agentv1alpha1.ReasonConfigured {
		t.Errorf("with a good one: %+v", c)
	}
}

func TestCheckReadsTheFile(t *testing.T) {
	openCost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			fmt.Fprintln(w, `node_cpu_hourly_cost{node="n1"} 0.04`)
		}
	}))
	defer openCost.Close()
	const head = "apiVersion: agent.fluidos.eu/v1alpha1\nkind: AgentConfiguration\n"
	look := func(text string) checkup.Finding {
		o := &checkOptions{options: defaultOptions()}
		if text != "" {
			o.configFile = filepath.Join(t.TempDir(), "agent.yaml")
			if err := os.WriteFile(o.configFile, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return o.checkConfiguration(t.Context(), nil)
	}
	for text, want := range map[string]checkup.Finding{
		"":                                checkup.Skip("--config is not given"),
		string(config.AgentConfiguration): checkup.Found("agent.yaml is valid"),
		someFile + "extra: 1\n":           checkup.Fail("", `unknown key "extra"`),
		head + "prices: {currency: EUR, nodeLabels: {cpuCost: b, memoryCost: a}}\n":           checkup.Found("node labels a, b set the prices"),
		head + "prices: {currency: EUR, openCost: {url: '" + openCost.URL + "/metrics'}}\n":   checkup.Found("OpenCost at %s/metrics gives the prices of 1 nodes", openCost.URL),
		head + "prices: {currency: EUR, openCost: {url: '" + openCost.URL + "/elsewhere'}}\n": checkup.Warn("", "OpenCost at %s/elsewhere gives no prices: the answer has no node_cpu_hourly_cost", openCost.URL),
	} {
		got := look(text)
		if got.Level != want.Level || !strings.Contains(got.Message, want.Message) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}
