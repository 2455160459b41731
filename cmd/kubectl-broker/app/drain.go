package app

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

type drainOptions struct {
	notice     time.Duration
	reason     string
	cordonOnly bool
	wait       bool
	timeout    time.Duration
}

func newDrainCommand(p *plugin) *cobra.Command {
	o := &drainOptions{}
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
		ValidArgsFunction: p.completeFirst(listClusters),
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.notice, "notice", 10*time.Minute, "how long reservations may stay if no other cluster has room")
	flags.StringVar(&o.reason, "reason", "", "text for the requesters")
	flags.BoolVar(&o.cordonOnly, "cordon-only", false, "let existing reservations stay")
	flags.BoolVar(&o.wait, "wait", false, "wait until no reservation is left, and print the progress")
	flags.DurationVar(&o.timeout, "timeout", 2*time.Hour, "how long --wait waits")
	return p.newAction(cmd, true, func(ctx context.Context, a *action, args []string) error {
		switch {
		case o.cordonOnly && (flags.Changed("notice") || o.wait):
			return newUsageError("with --cordon-only reservations stay: leave --notice and --wait out")
		case o.notice < 0:
			return newUsageError("--notice must be at least 0s, not %s", o.notice)
		}
		return a.drainCluster(ctx, args[0], o)
	})
}

func (a *action) drainCluster(ctx context.Context, id string, o *drainOptions) error {
	c, err := a.connectBroker()
	if err != nil {
		return err
	}
	snapshot, err := c.gatherObjects(ctx, "", a.now(), summary)
	if err != nil {
		return err
	}
	clusters := snapshot.Broker.Clusters
	at := slices.IndexFunc(clusters, func(a *brokerv1alpha1.ClusterAdvertisement) bool { return a.Spec.ClusterID == id })
	if at < 0 {
		return fmt.Errorf("no cluster %q has advertised: %s lists those that have%s", id, c.suggest("top"), describeGaps(snapshot.Gaps))
	}
	affected := edits.DescribeAffected(snapshot, id)
	question, done := fmt.Sprintf("Drain %s? On it: %s, to leave within %s.", id, affected, o.notice), "drains"
	if o.cordonOnly {
		question, done = fmt.Sprintf("Cordon %s? What runs there stays: %s.", id, affected), "is cordoned"
	}
	err = a.changeConfig(ctx, c, question, func(config *brokerv1alpha1.BrokerConfig) (string, error) {
		edits.SetDrain(config, id, o.notice, o.cordonOnly, o.reason)
		return fmt.Sprintf("%s %s; on it: %s", id, done, affected), nil
	})
	switch {
	case err != nil:
		return err
	case a.isDry():
		return a.showDrainPlan(ctx, id, o)
	case o.wait:
		return a.awaitDrained(ctx, c, clusters[at], o.timeout)
	}
	return nil
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

// awaitDrained waits until no reservation is left on the cluster. It prints the message of the
// condition Drained whenever it changes.
func (a *action) awaitDrained(ctx context.Context, c *connection, cluster *brokerv1alpha1.ClusterAdvertisement, timeout time.Duration) error {
	id, last := cluster.Spec.ClusterID, ""
	late := func() error {
		return fmt.Errorf("%s is not drained after %s; it goes on, and condition Drained of its ClusterAdvertisement shows it", id, timeout)
	}
	err := c.await(ctx, timeout, cluster, late, func() (bool, error) {
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
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("the broker no longer knows cluster %s", id)
	}
	return err
}

func newUndrainCommand(p *plugin) *cobra.Command {
	return p.newAction(&cobra.Command{
		Use:   "undrain CLUSTER-ID",
		Short: "Let a drained or cordoned cluster provide again.",
		Long: `Removes a cluster from spec.drains of the BrokerConfig: it gets new placements again, and
reservations that have not left yet stay. What has moved does not come back.`,
		Example:           `  kubectl broker undrain paris`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listClusters),
	}, false, func(ctx context.Context, a *action, args []string) error {
		return a.changeBroker(ctx, "", func(config *brokerv1alpha1.BrokerConfig) (string, error) {
			if !edits.EndDrain(config, args[0]) {
				return args[0] + " was not drained", nil
			}
			return args[0] + " provides again", nil
		})
	})
}

// newPauseCommand returns a subcommand of the command queue that pauses or resumes the broker's queue.
func newPauseCommand(p *plugin, paused bool, use, short, long string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Args: cobra.NoArgs}
	return p.newAction(cmd, false, func(ctx context.Context, a *action, _ []string) error {
		return a.changeBroker(ctx, "", func(config *brokerv1alpha1.BrokerConfig) (string, error) {
			if config.Spec.Queue == nil {
				config.Spec.Queue = &brokerv1alpha1.QueueConfig{}
			}
			config.Spec.Queue.Paused = paused
			return "queue " + use + "d", nil
		})
	})
}
