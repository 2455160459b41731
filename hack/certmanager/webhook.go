package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/cert-manager/cert-manager/internal/webhook"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
)

// webhookCommand returns the command for the webhook. It accepts the flags of
// cert-manager's own webhook.
func webhookCommand() *cobra.Command {
	config, err := options.NewWebhookConfiguration()
	cmd := component("webhook", "Validate certificates, issuers and requests, and who approves them.", func(ctx context.Context) error {
		if err != nil {
			return fmt.Errorf("defaults of the webhook: %w", err)
		}
		server, err := webhook.NewCertManagerWebhookServer(ctrl.Log.WithName("webhook"), *config)
		if err != nil {
			return err
		}
		return server.Run(ctx)
	})
	if err == nil {
		config.KubeConfig = os.Getenv("KUBECONFIG")
		options.AddConfigFlags(cmd.Flags(), config)
	}
	return cmd
}
