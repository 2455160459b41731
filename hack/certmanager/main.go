// Command cert-manager runs the components of cert-manager that issue certificates
// from CAs and self-signed ones, and hand CAs to webhooks:
//
//	cert-manager controller|cainjector|webhook [flags of cert-manager]
//
// It stands in for the released images wherever these cannot be pulled, behind the
// arguments of cert-manager's own chart. ACME, Vault and Venafi issuers, leader
// election (run one replica) and metrics are left out.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
)

func main() {
	log := zap.New(zap.UseDevMode(true))
	ctrl.SetLogger(log)
	cmd := &cobra.Command{
		Use: "cert-manager", Short: "The components of cert-manager.",
		SilenceUsage: true, SilenceErrors: true,
	}
	cmd.AddCommand(controllerCommand(), injectorCommand(), webhookCommand())
	if err := cmd.ExecuteContext(ctrl.SetupSignalHandler()); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

// component is the command of one component. Its chart also passes flags that mean
// nothing here; they are let pass.
func component(name, short string, run func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	return cmd
}
