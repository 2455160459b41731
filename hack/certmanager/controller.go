package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/healthz"

	// Controllers and issuers register themselves.
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

// workers is the number of workers of each controller. It is cert-manager's default.
const workers = 5

type controllers struct {
	kubeconfig, namespace, health string
	backoff                       time.Duration
}

func controllerCommand() *cobra.Command {
	c := &controllers{}
	cmd := component("controller", "Issue certificates.", c.run)
	flags := cmd.Flags()
	flags.StringVar(&c.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster (default: $KUBECONFIG, else the pod's own)")
	flags.StringVar(&c.namespace, "cluster-resource-namespace", "kube-system", "namespace of the Secrets of ClusterIssuers")
	flags.StringVar(&c.health, "internal-healthz-listen-address", ":9403", "address that answers /livez")
	flags.DurationVar(&c.backoff, "certificate-request-minimum-backoff-duration", time.Hour, "pause after a request that failed")
	return cmd
}

func (c *controllers) run(ctx context.Context) error {
	options := controller.ContextOptions{
		Kubeconfig:       c.kubeconfig,
		KubernetesAPIQPS: -1, // only the API server limits requests
		IssuerOptions:    controller.IssuerOptions{ClusterResourceNamespace: c.namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: c.backoff,
		},
	}
	group, ctx := errgroup.WithContext(ctx)
	factory, err := controller.NewContextFactory(ctx, options)
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	for name, construct := range controller.Known() {
		one, err := construct(factory)
		if err != nil {
			return fmt.Errorf("controller %q: %w", name, err)
		}
		group.Go(func() error { return one.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	shared.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	group.Go(func() error { return serveHealth(ctx, c.health) })
	return group.Wait()
}

func serveHealth(ctx context.Context, address string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return err
	}
	return healthz.NewServer(0).Start(ctx, listener)
}
