package app

import (
	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

func build() *cobra.Command {
	return &cobra.Command{
		Use:   "build [PROGRAM...]",
		Short: "Build the programs that playground and tests run, and stop.",
		Long: `build compiles etcd, Kubernetes, KWOK, cert-manager and Liqo from the modules
pinned in hack/ into the user's cache folder, unless they are there. The first time
takes minutes.
With names it builds these alone, also programs that only kind clusters consist of.`,
		RunE: func(cmd *cobra.Command, names []string) error {
			ctx, programs := cmd.Context(), toolchain.All()
			if len(names) > 0 {
				var err error
				if programs, err = toolchain.Named(names...); err != nil {
					return err
				}
			}
			_, err := withProgress(ctx, cmd.OutOrStdout(), func(report progress.Reporter) (struct{}, error) {
				tools, err := toolchain.New(report)
				if err != nil {
					return struct{}{}, err
				}
				return struct{}{}, tools.Ensure(ctx, programs...)
			})
			return err
		},
	}
}
