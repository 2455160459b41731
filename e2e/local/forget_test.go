package local

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/commands"
)

// TestForgottenClusterReturns removes a provider from the broker while its agent is away, as the pages describe. What
// was reserved there ends. The returning agent takes its side down, and the cluster lends again.
func TestForgottenClusterReturns(t *testing.T) {
	env := playgroundOf(t)
	ctx, rome, shell := t.Context(), env.Member("rome"), shellOf(t, env)
	before, err := env.Available(ctx)
	check(t, err)
	config := configure(t, env, brokerv1alpha1.BrokerConfigSpec{})
	deny := func(clusters ...string) {
		t.Helper()
		old := config.DeepCopy()
		config.Spec.DeniedClusters = clusters
		check(t, env.Broker.Patch(ctx, config, client.MergeFrom(old)))
	}
	agent := env.Product.Process("berlin")
	t.Cleanup(func() {
		if !agent.Alive() {
			check(t, agent.Start())
		}
	})
	blocks, err := commands.Of("../..", t.Name())
	check(t, err)
	for _, b := range blocks {
		r, _ := readyRequest(t, rome, "on-berlin", withGPU())
		agent.Kill()
		deny("berlin")
		runBlock(t, shell, b, "broker", "")
		check(t, rome.AwaitPhase(ctx, r, patience, agentv1alpha1.RequestFailed))
		check(t, rome.DeleteAndWait(ctx, r, patience))

		deny()
		check(t, agent.Start())
		check(t, env.AwaitAdvertised(ctx, patience))
		check(t, env.AwaitClean(ctx, patience))
		check(t, env.AwaitAvailable(ctx, before, patience))
	}
	readyRequest(t, rome, "on-berlin-again", withGPU())
}
