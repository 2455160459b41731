package app

import (
	"time"

	"k8s.io/client-go/rest"

	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

// addWebhooks registers the webhooks, if they are enabled. Every replica serves them. They need the
// broker only for the quote in a dry run.
func (a *agent) addWebhooks(*rest.Config) error {
	if !a.webhook.Enabled() {
		return nil
	}
	if err := agentwebhooks.Setup(a.mgr, agentwebhooks.Options{ClusterID: a.clusterID, Broker: a.transport, Previewer: webhooks.NewPreviewer(time.Now)}); err != nil {
		return err
	}
	webhooks.RecordActors(a.mgr, time.Now)
	if a.peering != nil {
		agentwebhooks.SetupNamespaceMaps(a.mgr)
		agentwebhooks.SetupSigning(a.mgr, a.peering, a.peerLifetime)
		agentwebhooks.SetupPods(a.mgr)
		agentwebhooks.SetupBoundPods(a.mgr)
		agentwebhooks.SetupDaemonSets(a.mgr)
		if a.burstPolicies {
			if err := agentwebhooks.SetupBurstPods(a.mgr); err != nil {
				return err
			}
		}
		if err := a.addOffloadedWebhooks(); err != nil {
			return err
		}
	}
	return a.webhook.AddReadyCheck(a.mgr)
}
