package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

func demoCommand(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Start the playground, run the whole story once and stop.",
		Long: `demo shows the whole product: the clusters' advertisements, a request of rome and
the broker's decision, the peering, pods on the virtual node, a GPU, a request that
no cluster can hold, and the release of everything.

On success it exits with 0 and a last line that starts with "demo: ok". On failure
it prints the failed step, the object that it checked and the log to read.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			return runDemo(cmd.Context(), cmd.OutOrStdout(), dir)
		},
	}
}

func runDemo(ctx context.Context, out io.Writer, dir string) error {
	samples, err := e2e.ShippedSamples()
	if err != nil {
		return err
	}
	env, err := bootPlayground(ctx, out, dir)
	if err != nil {
		return err
	}
	figures, err := e2e.Story(ctx, env.Environment, samples, out)
	if err := errors.Join(err, env.Stop()); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	_, err = fmt.Fprintf(out, "\ndemo: ok (request to Ready virtual node %.1f s, to running pod %.1f s)\n",
		figures.NodeReady.Seconds(), figures.PodRunning.Seconds())
	return err
}
