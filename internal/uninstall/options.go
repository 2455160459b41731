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

	"github.com/mehdiazizian/liqo-resource-broker/internal/home"
)

// Remedy is how a Helm user has everything ended that stands in the way.
const Remedy = "Or have all of it ended for you: helm rollback RELEASE REVISION (Helm takes a release that would not go for half gone; helm history names its revision), helm upgrade --reuse-values --set uninstall.policy=Drain, and uninstall again."

// Options are what both uses have in common, whichever program is uninstalled.
type Options struct {
	// Policy of the departure; Refuse.
	Policy Policy
	// Timeout of what is waited for; 10 min.
	Timeout time.Duration
	// Cleanup asks for what comes after the program is gone.
	Cleanup bool
	// Namespace of the release.
	Namespace string
	// Name that the release's objects begin with.
	Name string
	// Pods are the labels of the program's pods; nothing is waited for if empty.
	Pods string
}

// Defaults are the options of a release in a namespace.
func Defaults(namespace string) Options {
	return Options{Policy: Refuse, Timeout: 10 * time.Minute, Namespace: namespace}
}

// Bind adds the flags; program is what they call it.
func (o *Options) Bind(fs *pflag.FlagSet, program string) {
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "namespace of the "+program+"; POD_NAMESPACE if set")
	fs.Var(&o.Policy, "policy", "what becomes of what is in use: Refuse, Drain or Ignore")
	fs.DurationVar(&o.Timeout, "timeout", o.Timeout, "how long to wait until nothing is in use any more, or until the "+program+" is gone")
	fs.BoolVar(&o.Cleanup, "cleanup", o.Cleanup, "remove what is left after the "+program+" is gone")
	fs.StringVar(&o.Name, "name", o.Name, "what the release's objects are named, for --cleanup")
	fs.StringVar(&o.Pods, "pod-selector", o.Pods, "labels of the "+program+"'s pods, which --cleanup waits for; not waited for if unset")
}

// Body is that of a command which does what the options ask for.
func (o *Options) Body(
	kinds func() (*runtime.Scheme, error),
	departure func(client.Client) Departure, cleanUp func(context.Context, client.Client, io.Writer) error,
) func(*cobra.Command, []string) error {
	return home.Visit(kinds, func(cmd *cobra.Command, _ []string, _ *rest.Config, c client.Client) error {
		if o.Cleanup {
			return cleanUp(cmd.Context(), c, cmd.OutOrStdout())
		}
		return departure(c).Run(cmd.Context(), cmd.OutOrStdout())
	})
}

// Departure by these options, which needs to be told what is in use.
func (o *Options) Departure() Departure {
	return Departure{Policy: o.Policy, Timeout: o.Timeout, Clock: clock.RealClock{}}
}

// CleanUp waits until the program is gone and then takes the steps.
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
