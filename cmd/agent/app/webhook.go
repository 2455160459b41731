package app

import (
	"k8s.io/client-go/rest"

	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

// addWebhooks serves the validating webhook where it is turned on. It does not
// need the broker, and every replica answers.
func (a *agent) addWebhooks(*rest.Config) error {
	if !a.webhook.Enabled() {
		return nil
	}
	if err := agentwebhooks.Setup(a.mgr); err != nil {
		return err
	}
	return a.webhook.AddReadyCheck(a.mgr)
}
