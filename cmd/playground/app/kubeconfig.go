package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

func kubeconfigCommand(folder func() (string, error)) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "kubeconfig [NAME]",
		Short: "Print the path of a cluster's kubeconfig.",
		Long: `kubeconfig prints the path of the file with administrator credentials for one
cluster, or without NAME of the file with a context for every cluster.`,
		Example: `  export KUBECONFIG=$(playground kubeconfig)
  kubectl --kubeconfig $(playground kubeconfig rome) get nodes
  playground kubeconfig paris --raw > elsewhere.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			name := ""
			if len(args) == 1 {
				name = args[0]
			}
			file := playground.KubeconfigOf(dir, name)
			content, err := os.ReadFile(file)
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%q does not exist: \"playground status\" lists the clusters, \"playground up\" starts them", file)
			}
			if err != nil {
				return err
			}
			if raw {
				_, err = cmd.OutOrStdout().Write(content)
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), file)
			return nil
		},
	}
	cmd.Flags().BoolVar(&raw, "raw", false, "print the content instead of the path")
	return cmd
}
