package app

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

// stopTimeout is how long a playground may take to stop.
const stopTimeout = time.Minute

func downCommand(folder func() (string, error)) *cobra.Command {
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop a playground that runs in another terminal.",
		Long: `down stops the playground like Ctrl-C in its terminal, and waits until it has
stopped. It keeps the state unless --purge is given. Built programs always stay
in the cache.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), stopTimeout)
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
	cmd.Flags().BoolVar(&purge, "purge", false, "delete the state; the next start creates new clusters")
	return cmd
}
