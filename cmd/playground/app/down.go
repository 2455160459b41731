package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

// stopping is how long a playground may take to stop.
const stopping = time.Minute

func down(folder func() (string, error)) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a playground that runs elsewhere, for example in another terminal.",
		Long: `down asks the process that runs the playground to stop it, as Ctrl-C would, and
waits until it has. The state is kept unless --purge is given. The programs that
were built stay cached in any case.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), stopping)
			defer cancel()
			ran, err := playground.Down(ctx, dir)
			if err != nil {
				return err
			}
			if ran {
				fmt.Fprintln(cmd.OutOrStdout(), "The playground has stopped.")
			} else {
				fmt.Fprintln(cmd.OutOrStdout(), "No playground was running.")
			}
			if !purge {
				return nil
			}
			if err := playground.Remove(dir); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Removed %s.\n", dir)
			return nil
		},
	}
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the state: the next start makes new clusters")
	return cmd
}
