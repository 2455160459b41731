package app

import (
	"context"

	ctrl "sigs.k8s.io/controller-runtime"

	brokerwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/broker"
)

// addWebhooks registers the validating webhooks if they are enabled. They need neither journal
// nor lease, so every replica serves them.
func addWebhooks(ctx context.Context, mgr ctrl.Manager, o *options) error {
	if !o.webhook.Enabled() {
		return nil
	}
	if err := brokerwebhooks.Setup(ctx, mgr); err != nil {
		return err
	}
	return o.webhook.AddReadyCheck(mgr)
}
