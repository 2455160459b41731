// Package app contains the commands of the playground.
package app

import (
	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

// Command returns the playground's root command.
func Command() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "playground",
		Short: "A federation of Kubernetes clusters on this machine.",
		Long: `The playground boots a broker cluster and three member clusters as plain
processes: no root, no containers, no virtual machines.

  rome     2 nodes of 4 CPUs and 8 GiB     region eu-south
  paris    2 nodes of 8 CPUs and 32 GiB    region eu-west
  berlin   2 nodes of 8 CPUs and 32 GiB,   region eu-central
           one of them with 2 GPUs

Kubernetes, Liqo and cert-manager are real; nodes and containers are simulated by
KWOK. Broker and agents are installed from their charts. The first start compiles
all of it from the modules pinned in hack/, which takes about ten minutes on two
cores; after that a start takes seconds.

The state is in .playground of the checkout, the logs in
.playground/clusters/NAME/logs.`,
		Example: `  playground up                                       # until Ctrl-C
  export KUBECONFIG=$(playground kubeconfig)          # in another terminal
  kubectl --context rome get nodes
  playground down --purge                             # stop it and delete its state`,
		SilenceUsage: true,
	}
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "folder of the state (default: .playground in the checkout)")
	folder := func() (string, error) { return playground.Dir(dir) }
	cmd.AddCommand(upCommand(folder), demoCommand(folder), kueueCommand(folder), downCommand(folder), statusCommand(folder), kubeconfigCommand(folder), buildCommand())
	return cmd
}
