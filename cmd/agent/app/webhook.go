package app

import (
	"k8s.io/client-go/rest"

	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

// addWebhooks registers the webhooks if they are enabled. They do not need the broker, and
// every replica serves them.
func (a *agent) addWebhooks(*rest.Config) error {
	if !a.webhook.Enabled() {
		return nil
	}
	if err := agentwebhooks.Setup(a.mgr, a.clusterID); err != nil {
		return err
	}
	if a.peering != nil {
		agentwebhooks.SetupNamespaceMaps(a.mgr)
		agentwebhooks.SetupSigning(a.mgr, a.peering, a.peerLifetime)
		agentwebhooks.SetupPods(a.mgr)
		agentwebhooks.SetupBoundPods(a.mgr)
		if err := a.addOffloadedWebhooks(); err != nil {
			return err
		}
	}
	return a.webhook.AddReadyCheck(a.mgr)
}
