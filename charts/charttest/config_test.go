package charttest

import (
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/config"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// agentFile returns the configuration file in a release, as the agent reads it.
func agentFile(t *testing.T, rendered *chart.Rendered) *configuration.Configuration {
	t.Helper()
	for _, obj := range rendered.Objects {
		if obj.GetKind() != "ConfigMap" || obj.GetName() != "agent-liqo-resource-broker-agent-config" {
			continue
		}
		c, err := configuration.Parse([]byte(typed[*corev1.ConfigMap](t, obj).Data["agent.yaml"]), os.ReadFile)
		runtest.Check(t, err)
		return c
	}
	return nil
}

// The agent reads exactly the chart's value config, whether numbers are written as text or not.
func TestAgentReadsTheChartsConfiguration(t *testing.T) {
	c := chartsUnderTest["agent"]
	release := chart.Release{Name: c.release, Namespace: namespace}
	got := agentFile(t, mustRender(t, c, release, c.values["a configuration"]))
	if got == nil {
		t.Fatal("there is no configuration")
	}
	if got.Region != "eu-south" || got.Labels["tier"] != "gold" || got.Prices.CPUCost != "0.05" || got.Nodes.Empty() {
		t.Errorf("got %+v", got)
	}
	if o := got.Offer; o.Withheld.All != 20 || o.HeadroomShare.All != 10 || o.Ratios["cpu"] != 150 || !o.Cap.Equal(quantity.Amounts{"cpu": 40000}) || !o.Minimum.Equal(quantity.Amounts{"cpu": 500}) {
		t.Errorf("got %+v", o)
	}
	if _, capped := got.Offer.Cap["nvidia.com/gpu"]; !capped {
		t.Error("a cap of 0 is lost")
	}
	if none := agentFile(t, mustRender(t, c, release, "")); none != nil {
		t.Errorf("without the value: %+v", none)
	}

	values, err := yaml.Marshal(map[string]any{"config": mustYAML(t, config.AgentConfiguration)})
	runtest.Check(t, err)
	sample := agentFile(t, mustRender(t, c, release, string(values)))
	want, err := configuration.Parse(config.AgentConfiguration, os.ReadFile)
	runtest.Check(t, err)
	there := quantity.Amounts{"cpu": 640_000, "memory": 1 << 40, "nvidia.com/gpu": 8}
	lendable := func(t offering.Rules) quantity.Amounts { return t.Lendable(there, quantity.Amounts{"cpu": 10_000}) }
	if got, want := lendable(sample.Offer), lendable(want.Offer); !got.Equal(want) {
		t.Errorf("the sample lends %v through the chart, %v as a file", got, want)
	}
}

func mustYAML(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var out map[string]any
	runtest.Check(t, yaml.Unmarshal(text, &out))
	return out
}
