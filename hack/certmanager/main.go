// Command cert-manager runs the components of cert-manager that issue certificates from CAs, issue self-signed
// certificates, and write CAs into webhook configurations:
//
//	cert-manager controller|cainjector|webhook [flags of cert-manager]
//
// It runs in place of the released images if these cannot be pulled, and accepts the arguments of
// cert-manager's own chart. It leaves out ACME, Vault and Venafi issuers, metrics and leader election, so that
// only one replica may run.
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

// component returns the command for one component. The command ignores unknown flags, because the chart also
// passes flags of features that are left out.
func component(name, short string, run func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return run(cmd.Context()) },
	}
	cmd.FParseErrWhitelist.UnknownFlags = true
	return cmd
}
