package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

func demo(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "demo",
		Short: "Start the playground, run the whole story once and stop.",
		Long: `demo tells one story from beginning to end: what the clusters advertise, a
request of rome and how the broker decided it, the peering, pods on the virtual
node, a GPU, a request that nobody can hold, and everything given back.

It ends with 0 and a last line that starts with "demo: ok", or with the step that
failed, the object that was looked at and the log to read.`,
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
	env, err := boot(ctx, out, dir)
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
