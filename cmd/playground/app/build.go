package app

import (
	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

func buildCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "build [PROGRAM...]",
		Short: "Build the programs that playground and tests run.",
		Long: `build compiles etcd, Kubernetes, KWOK, cert-manager, Liqo and Helm from the modules
pinned in hack/ into the user's cache folder, unless they are already there. The
first build takes minutes. With names it builds only these, including programs that
only kind clusters or single suites need.`,
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
