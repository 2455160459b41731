package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// drainOptions are the flags of the command drain.
type drainOptions struct {
	notice     time.Duration
	reason     string
	cordonOnly bool
	wait       bool
	timeout    time.Duration
}

func newDrainCommand(p *plugin) *cobra.Command {
	a, o := &action{plugin: p}, &drainOptions{}
	cmd := &cobra.Command{
		Use:   "drain CLUSTER-ID",
		Short: "Empty a provider for maintenance, or stop new placements there.",
		Long: `Adds a cluster to spec.drains of the BrokerConfig: it gets nothing new, and its
reservations move to other clusters. Each leaves once its node on another provider is
Ready, or at the end of the notice; then it waits in the queue or ends. Repeating the
command changes notice and reason; the notice still counts from the first time. undrain
takes it back. With --wait it prints the progress until nothing is left. With --dry-run
it prints what kubectl broker plan drain shows.`,
		Example: `  kubectl broker drain paris --notice 1h --reason 'maintenance of rack 4' --wait
  kubectl broker drain paris --cordon-only`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeClusters,
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.notice, "notice", 10*time.Minute, "how long reservations may stay if no other cluster has room")
	flags.StringVar(&o.reason, "reason", "", "text for the requesters")
	flags.BoolVar(&o.cordonOnly, "cordon-only", false, "let existing reservations stay")
	flags.BoolVar(&o.wait, "wait", false, "wait until no reservation is left, and print the progress")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Hour, "how long --wait waits")
	a.bindFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := errors.Join(a.checkFlags(), o.checkFlags(cmd.Flags().Changed("notice"))); err != nil {
			return err
		}
		return a.drainCluster(cmd.Context(), args[0], o)
	}
	return cmd
}

// checkFlags returns an error if flags contradict each other, or if the notice is negative.
func (o *drainOptions) checkFlags(hasNotice bool) error {
	switch {
	case o.cordonOnly && (hasNotice || o.wait):
		return newUsageError("with --cordon-only reservations stay: leave --notice and --wait out")
	case o.notice < 0:
		return newUsageError("--notice must be at least 0s, not %s", o.notice)
	}
	return nil
}

// drainEntry returns the entry for spec.drains that the flags describe.
func (o *drainOptions) drainEntry(id string) brokerv1alpha1.ClusterDrain {
	entry := brokerv1alpha1.ClusterDrain{ClusterID: id, CordonOnly: o.cordonOnly, Reason: o.reason}
	if !o.cordonOnly {
		entry.Notice = &metav1.Duration{Duration: o.notice}
	}
	return entry
}

func (a *action) drainCluster(ctx context.Context, id string, o *drainOptions) error {
	c, err := a.connectBroker(ctx)
	if err != nil {
		return err
	}
	snapshot, err := c.gatherObjects(ctx, c.scopeNamespace(), a.now(), summary)
	if err != nil {
		return err
	}
	if findCluster(snapshot.Broker.Clusters, id) == nil {
		return fmt.Errorf("no cluster %q has advertised: kubectl broker top lists those that have", id)
	}
	affected := edits.DescribeAffected(snapshot.Broker.Reservations, id)
	question, done := fmt.Sprintf("Drain %s? On it: %s, to leave within %s.", id, affected, o.notice), "drains"
	if o.cordonOnly {
		question, done = fmt.Sprintf("Cordon %s? What runs there stays: %s.", id, affected), "is cordoned"
	}
	if err := a.confirmChange(question); err != nil {
		return err
	}
	err = a.changeConfig(ctx, c, func(config *brokerv1alpha1.BrokerConfig) error {
		edits.SetDrain(config, o.drainEntry(id))
		return nil
	})
	if err != nil {
		return err
	}
	if _, err = fmt.Fprintf(a.Out, "%s %s; on it: %s%s\n", id, done, affected, a.dryRunNote()); err != nil {
		return err
	}
	if a.isDry() {
		return a.showDrainPlan(ctx, id, o)
	}
	if !o.wait {
		return nil
	}
	return a.awaitDrained(ctx, c, id, o.timeout)
}

// showDrainPlan prints what the drain would cause. If that cannot be computed, it prints the reason
// and returns nil, so that the drain goes on.
func (a *action) showDrainPlan(ctx context.Context, id string, o *drainOptions) error {
	plan, err := (&planOptions{plugin: a.plugin, journal: defaultJournal}).planDrain(ctx, id, drains.Drain{Notice: o.notice, CordonOnly: o.cordonOnly})
	if err != nil {
		fmt.Fprintln(a.ErrOut, "no plan:", err)
		return nil
	}
	fmt.Fprintln(a.Out)
	return view.WritePlan(a.Out, plan, a.painter())
}

func findCluster(all []*brokerv1alpha1.ClusterAdvertisement, id string) *brokerv1alpha1.ClusterAdvertisement {
	i := slices.IndexFunc(all, func(a *brokerv1alpha1.ClusterAdvertisement) bool { return a.Spec.ClusterID == id })
	if i < 0 {
		return nil
	}
	return all[i]
}

// awaitDrained waits until no reservation is left on the cluster. It prints the message of the
// condition Drained whenever it changes.
func (a *action) awaitDrained(ctx context.Context, c *connection, id string, timeout time.Duration) error {
	last := ""
	err := wait.PollUntilContextTimeout(ctx, time.Second, timeout, true, func(ctx context.Context) (bool, error) {
		var list brokerv1alpha1.ClusterAdvertisementList
		if err := c.List(ctx, &list); err != nil {
			return false, err
		}
		cluster := findCluster(pointersTo(list.Items), id)
		if cluster == nil {
			return false, fmt.Errorf("the broker no longer knows cluster %s", id)
		}
		drained := meta.FindStatusCondition(cluster.Status.Conditions, brokerv1alpha1.ConditionDrained)
		if drained == nil {
			return false, nil
		}
		if drained.Message != last {
			last = drained.Message
			fmt.Fprintln(a.ErrOut, view.Clean(last))
		}
		return drained.Status == metav1.ConditionTrue, nil
	})
	if wait.Interrupted(err) {
		return fmt.Errorf("%s is not drained after %s; it goes on, and condition Drained of its ClusterAdvertisement shows it", id, timeout)
	}
	return err
}

func newUndrainCommand(p *plugin) *cobra.Command {
	a := &action{plugin: p}
	cmd := &cobra.Command{
		Use:   "undrain CLUSTER-ID",
		Short: "Let a drained or cordoned cluster provide again.",
		Long: `Removes a cluster from spec.drains of the BrokerConfig: it gets new placements again, and
reservations that have not left yet stay. What has moved does not come back.`,
		Example:           `  kubectl broker undrain paris`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeClusters,
	}
	a.bindFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.checkFlags(); err != nil {
			return err
		}
		c, err := p.connectBroker(cmd.Context())
		if err != nil {
			return err
		}
		was := false
		err = a.changeConfig(cmd.Context(), c, func(config *brokerv1alpha1.BrokerConfig) error {
			was = edits.EndDrain(config, args[0])
			return nil
		})
		if err != nil {
			return err
		}
		text := "provides again"
		if !was {
			text = "was not drained"
		}
		_, err = fmt.Fprintf(p.Out, "%s %s%s\n", args[0], text, a.dryRunNote())
		return err
	}
	return cmd
}

// completeClusters lists the IDs of the clusters that have advertised, for the first argument only.
func (p *plugin) completeClusters(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := p.connectBroker(ctx)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var list brokerv1alpha1.ClusterAdvertisementList
	if err := c.List(ctx, &list); err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var ids []string
	for i := range list.Items {
		ids = append(ids, list.Items[i].Spec.ClusterID)
	}
	slices.Sort(ids)
	return slices.Compact(ids), cobra.ShellCompDirectiveNoFileComp
}

// newPauseCommands returns the subcommands of the command queue that pause and resume the broker's
// queue.
func newPauseCommands(p *plugin) []*cobra.Command {
	return []*cobra.Command{
		newPauseCommand(p, true, "pause", "Grant nothing to waiting requests until the queue is resumed.",
			`Sets spec.queue.paused of the BrokerConfig. Waiting requests keep their places, even
beyond their timeouts, and new requests do not pass them. Reservations that have to leave
their provider still move.`),
		newPauseCommand(p, false, "resume", "Serve the queue again.",
			`Unsets spec.queue.paused of the BrokerConfig. Waiting requests are served in their order
before those whose timeout has passed fail.`),
	}
}

func newPauseCommand(p *plugin, paused bool, use, short, long string) *cobra.Command {
	a := &action{plugin: p}
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs}
	a.bindFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := a.checkFlags(); err != nil {
			return err
		}
		c, err := p.connectBroker(cmd.Context())
		if err != nil {
			return err
		}
		err = a.changeConfig(cmd.Context(), c, func(config *brokerv1alpha1.BrokerConfig) error {
			if config.Spec.Queue == nil {
				config.Spec.Queue = &brokerv1alpha1.QueueConfig{}
			}
			config.Spec.Queue.Paused = paused
			return nil
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Out, "queue %sd%s\n", use, a.dryRunNote())
		return err
	}
	return cmd
}
