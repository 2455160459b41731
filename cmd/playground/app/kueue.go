package app

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/kueue"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

func kueueCommand(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "kueue",
		Short: "Start the playground with Kueue, run jobs on borrowed nodes once and stop.",
		Long: `kueue builds Kueue and shows how its jobs fill local nodes first and borrowed nodes
next, what happens when the broker takes a borrowed node away, and the return of
everything.`,
		Args: cobra.NoArgs,
		RunE: runIn(folder, runKueue),
	}
}

func runKueue(ctx context.Context, out io.Writer, dir string) error {
	env, err := withProgress(ctx, out, func(report progress.Reporter) (*kueue.Environment, error) {
		env, err := local.Up(ctx, local.Options{Dir: dir, Progress: report})
		if err != nil {
			return nil, err
		}
		return kueue.Install(ctx, env, report)
	})
	if err != nil {
		return err
	}
	if err := errors.Join(kueue.Story(ctx, env, out), env.Stop()); err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	_, err = fmt.Fprintln(out, "\ndemo: ok")
	return err
}
