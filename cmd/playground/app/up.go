package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

func up(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start the playground and keep it running until Ctrl-C.",
		Long: `up starts what is missing, tells how far it is, and stays in the foreground.
Ctrl-C stops everything and keeps the state. However it ends, even by kill -9,
no process is left behind.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			return runUp(cmd.Context(), cmd.OutOrStdout(), dir)
		},
	}
}

func runUp(ctx context.Context, out io.Writer, dir string) error {
	p, err := boot(ctx, out, dir)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "\nThe playground is up. Press Ctrl-C to stop it.\n\n  export KUBECONFIG=%s\n", p.Kubeconfig())
	for _, name := range p.Names() {
		fmt.Fprintf(out, "  kubectl --context %-8s # %s\n", name, p.Clusters[name].URL())
	}
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping; the state is kept.")
	return p.Stop()
}

// boot shows progress while the playground starts.
func boot(ctx context.Context, out io.Writer, dir string) (*playground.Playground, error) {
	printer := progress.NewPrinter(out, isTerminal(out), clock.RealClock{})
	booting, booted := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { printer.Run(booting) })
	p, err := playground.Up(ctx, playground.Options{Dir: dir, Progress: printer})
	booted()
	wg.Wait()
	if err != nil && ctx.Err() != nil {
		return nil, errors.New("stopped before it was up")
	}
	return p, err
}

func isTerminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
