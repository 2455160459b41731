package uninstall

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
)

// Remedy tells a Helm user how to end everything that prevents the uninstallation.
const Remedy = "To end everything automatically: helm rollback RELEASE REVISION (Helm marks a release whose uninstallation failed as uninstalling; helm history shows its revision), helm upgrade --reuse-values --set uninstall.policy=Drain, and uninstall again."

// Options are the options of the uninstall commands of broker and agent.
type Options struct {
	Policy Policy
	// Timeout limits a drain, and how long the cleanup waits until the program's pods are gone.
	Timeout time.Duration
	// Cleanup makes the command remove leftover objects after the program is gone. If it is not set,
	// the command runs the Departure instead.
	Cleanup bool
	// Namespace is that of the Helm release, and Name the prefix of the names of its objects.
	Namespace, Name string
	// Pods is a label selector for the program's pods. If it is empty, the cleanup does not wait.
	Pods string
}

// Defaults returns the default options for a release in the given namespace.
func Defaults(namespace string) Options {
	return Options{Policy: Refuse, Timeout: 10 * time.Minute, Namespace: namespace}
}

// Bind adds the flags. program is "broker" or "agent".
func (o *Options) Bind(fs *pflag.FlagSet, program string) {
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the "+program+"; POD_NAMESPACE if set")
	fs.Var(&o.Policy, "policy", "what to do with everything in use: Refuse, Drain or Ignore")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long to wait until nothing is in use, or until the "+program+" is gone")
	fs.BoolVar(&o.Cleanup, "cleanup", o.Cleanup, "remove leftover objects after the "+program+" is gone")
	fs.StringVar(&o.Name, "name", o.Name, "name prefix of the release's objects, for --cleanup")
	fs.StringVar(&o.Pods, "pod-selector", o.Pods, "label selector of the "+program+"'s pods, for whose end --cleanup waits")
}

// Body returns the body of the uninstall command: cleanUp with --cleanup, otherwise the Departure.
func (o *Options) Body(
	kinds func() (*runtime.Scheme, error),
	departure func(client.Client) Departure, cleanUp func(context.Context, client.Client, io.Writer) error,
) func(*cobra.Command, []string) error {
	return cluster.RunOnce(kinds, func(cmd *cobra.Command, _ []string, _ *rest.Config, c client.Client) error {
		if o.Cleanup {
			return cleanUp(cmd.Context(), c, cmd.OutOrStdout())
		}
		return departure(c).Run(cmd.Context(), cmd.OutOrStdout())
	})
}

// Departure returns a Departure with these options. The caller sets the functions InUse and End.
func (o *Options) Departure() Departure {
	return Departure{Policy: o.Policy, Timeout: o.Timeout, Clock: clock.RealClock{}}
}

// CleanUp waits until the program's pods are gone and then runs the steps.
func (o *Options) CleanUp(ctx context.Context, c client.Client, out io.Writer, steps func(*Cleanup) []Step) error {
	pods, err := labels.Parse(o.Pods)
	if err != nil {
		return fmt.Errorf("--pod-selector: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	cleanup := &Cleanup{Client: c, Namespace: o.Namespace, Out: out}
	if err := cleanup.awaitPods(ctx, pods); err != nil {
		return err
	}
	for _, step := range steps(cleanup) {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}
