package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/recording"
)

func demoCommand(folder func() (string, error)) *cobra.Command {
	var image string
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Start the playground, run the whole story once and stop.",
		Long: `demo shows the whole product: the clusters' advertisements, a request of rome and
the broker's decision, the peering, pods on the virtual node, a GPU, a request that
no cluster can hold, and the release of everything.

On success it exits with 0 and a last line that starts with "demo: ok". On failure
it prints the failed step, the object that it checked and the log to read.

With --recording it also writes an animated image of its output.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			if image == "" {
				return runDemo(cmd.Context(), cmd.OutOrStdout(), dir)
			}
			return recordDemo(cmd.Context(), cmd.OutOrStdout(), dir, image)
		},
	}
	cmd.Flags().StringVar(&image, "recording", "", "file for an animated SVG image of the output")
	return cmd
}

// recordDemo runs the demo, and writes an animated image of its output to a file.
func recordDemo(ctx context.Context, out io.Writer, dir, image string) error {
	recorder := recording.New(out, clock.RealClock{})
	if _, err := fmt.Fprintln(recorder, "$ make demo"); err != nil {
		return err
	}
	if err := runDemo(ctx, recorder, dir); err != nil {
		return err
	}
	var svg bytes.Buffer
	if err := recording.WriteSVG(&svg, "Output of make demo", recorder.Lines()); err != nil {
		return err
	}
	return os.WriteFile(image, svg.Bytes(), 0o600)
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
