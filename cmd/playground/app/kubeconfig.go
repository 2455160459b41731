package app

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

func kubeconfig(folder func() (string, error)) *cobra.Command {
	var raw bool
	cmd := &cobra.Command{
		Use:   "kubeconfig [NAME]",
		Short: "Print where the kubeconfig of a cluster lies.",
		Long: `kubeconfig prints the file with an administrator's credentials for one cluster,
or without NAME the file that has a context for each.`,
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
				return fmt.Errorf("there is no %q: see \"playground status\" for the clusters, and start them with \"playground up\"", file)
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
	cmd.Flags().BoolVar(&raw, "raw", false, "print the content instead of the name")
	return cmd
}
