package app

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replica"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
	brokerwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/broker"
)

// addWebhooks registers the validating webhooks, if they are enabled. Every replica serves them.
// They need the leader only for the quote in a dry run.
func addWebhooks(ctx context.Context, mgr ctrl.Manager, b *broker.Broker, e *replica.Election, o *options) error {
	if !o.webhook.Enabled() {
		return nil
	}
	quotes := newQuoter(b, e, o.webhook.CertDir, time.Now)
	mgr.GetWebhookServer().Register(quotePath, quotes)
	options := brokerwebhooks.Options{Previewer: webhooks.NewPreviewer(time.Now), Quote: quotes.quoteReservation}
	if err := brokerwebhooks.Setup(ctx, mgr, options); err != nil {
		return err
	}
	webhooks.RecordActors(mgr, time.Now)
	return o.webhook.AddReadyCheck(mgr)
}
