package app

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

// bootPlayground starts the playground, and shows its progress on out.
func bootPlayground(ctx context.Context, out io.Writer, dir string) (*local.Environment, error) {
	return withProgress(ctx, out, func(report progress.Reporter) (*local.Environment, error) {
		return local.Up(ctx, local.Options{Dir: dir, Progress: report})
	})
}

// withProgress calls work, and shows its progress on out.
func withProgress[T any](ctx context.Context, out io.Writer, work func(progress.Reporter) (T, error)) (T, error) {
	printer := progress.NewPrinter(out, isTerminal(out), clock.RealClock{})
	working, done := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { printer.Run(working) })
	result, err := work(printer)
	done()
	wg.Wait()
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted before it was done")
	}
	return result, err
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// runIn returns the function of a command that runs in the folder of the state.
func runIn(folder func() (string, error), run func(ctx context.Context, out io.Writer, dir string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		dir, err := folder()
		if err != nil {
			return err
		}
		return run(cmd.Context(), cmd.OutOrStdout(), dir)
	}
}
