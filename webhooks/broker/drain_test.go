package broker

import (
	"testing"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
)

func TestDrainOfAnUnknownClusterIsWarnedAbout(t *testing.T) {
	config := readYAML[brokerv1alpha1.BrokerConfig](t, `{metadata: {name: default}, spec: {drains: [{clusterID: paris}, {clusterID: lyon}]}}`)
	wantVerdict(t, CheckBrokerConfig(config, fleet(t)), nil, []string{`spec.drains[1].clusterID … no cluster "lyon" has advertised; known are`})
	wantVerdict(t, CheckBrokerConfig(config, nil), nil, nil)
}
