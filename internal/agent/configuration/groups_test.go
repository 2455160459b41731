package configuration

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func TestGroupsOfNodes(t *testing.T) {
	c, err := Parse([]byte(head+`offer:
  elastic:
    - {name: gpu-pool, nodes: 4, each: {cpu: "32", memory: 128Gi, nvidia.com/gpu: "8"}, labels: {gpu: a100}, taints: ["nvidia.com/gpu:NoSchedule"], readyWithin: 8m}
`), noFile)
	runtest.Check(t, err)
	want := []offering.NodeGroup{{
		Name: "gpu-pool", Nodes: 4, Each: quantity.Amounts{"cpu": 32000, "memory": 128 << 30, "nvidia.com/gpu": 8, "pods": 110},
		Labels: map[string]string{"gpu": "a100"}, Taints: []brokerv1alpha1.Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}, ReadyWithin: 8 * time.Minute,
	}}
	if diff := cmp.Diff(want, c.Offer.Groups); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWrongGroupsAreRefused(t *testing.T) {
	const good = `name: a, nodes: 1, each: {cpu: "1", memory: 1Gi}, labels: {pool: a}, readyWithin: 8m`
	for text, want := range map[string]string{
		strings.Replace(good, "name: a, ", "", 1):                      "offer.elastic[0].name",
		strings.Replace(good, "nodes: 1", "nodes: 0", 1):               "offer.elastic[0].nodes: 0 nodes",
		strings.Replace(good, `cpu: "1", `, "", 1):                     "at least cpu and memory",
		strings.Replace(good, "labels: {pool: a}, ", "", 1):            "offer.elastic[0].labels",
		strings.Replace(good, "8m", "2h", 1):                           `readyWithin: "2h"`,
		good + `, taints: ["spot=yes:NoSchedule"]`:                     "list it in offer.taints as well",
		good + "}, {" + strings.Replace(good, "name: a", "name: b", 1): "a node may be in group",
		good + "}, {" + good:                                           `offer.elastic[1].name: "a"`,
		strings.Replace(good, `memory: 1Gi`, `memory: 1Go`, 1):         "offer.elastic[0].each",
	} {
		if _, err := Parse([]byte(head+"offer: {elastic: [{"+text+"}]}\n"), noFile); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestGroupOfNodesThatAreNotLentIsRefused(t *testing.T) {
	text := head + `offer: {nodeSelector: lend=yes, elastic: [{name: a, nodes: 1, each: {cpu: "1", memory: 1Gi}, labels: {pool: a}, readyWithin: 8m}]}`
	if _, err := Parse([]byte(text), noFile); err == nil || !strings.Contains(err.Error(), "what offer.nodeSelector asks for") {
		t.Error(err)
	}
}
