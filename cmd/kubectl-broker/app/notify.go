package app

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newNotifyCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "notify",
		Short: "Test the channels of notifications.",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newNotifyTestCommand(p))
	return cmd
}

func newNotifyTestCommand(p *plugin) *cobra.Command {
	a := &action{plugin: p}
	timeout := time.Minute
	cmd := &cobra.Command{
		Use:   "test CHANNEL",
		Short: "Make the broker send a test event to a channel.",
		Long: `Annotates the BrokerConfig, so that the broker itself sends an event of the type
notification.test to a channel of spec.notifications, over its own network and with the
channel's Secret. It waits for the result, which condition NotificationTested of the
BrokerConfig shows, too.`,
		Example:           `  kubectl broker notify test platform`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeChannels,
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the result")
	a.bindFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.checkFlags(); err != nil {
			return err
		}
		return a.testChannel(cmd.Context(), args[0], timeout)
	}
	return cmd
}

func (a *action) testChannel(ctx context.Context, channel string, timeout time.Duration) error {
	c, err := a.connectBroker(ctx)
	if err != nil {
		return err
	}
	config := edits.NewConfig()
	if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
		return err
	}
	names := channelNames(config)
	if !slices.Contains(names, channel) {
		return fmt.Errorf("spec.notifications of the BrokerConfig has no channel %q: it has %q", channel, names)
	}
	test := channel + "/" + strconv.FormatInt(a.now().UnixNano(), 36)
	err = edits.Patch(ctx, a.clientOf(c), config, func(*brokerv1alpha1.BrokerConfig) error {
		metav1.SetMetaDataAnnotation(&config.ObjectMeta, brokerv1alpha1.NotifyTestAnnotation, test)
		return nil
	})
	if err != nil {
		return err
	}
	if a.isDry() {
		_, err = fmt.Fprintf(a.Out, "the broker would send a test to %s%s\n", channel, a.dryRunNote())
		return err
	}
	result, err := awaitTest(ctx, c, config, test, timeout)
	if err != nil {
		return err
	}
	text := view.Clean(strings.TrimPrefix(result.Message, test+": "))
	if result.Status != metav1.ConditionTrue {
		return errors.New(text)
	}
	_, err = fmt.Fprintf(a.Out, "channel %s: %s\n", channel, text)
	return err
}

// awaitTest waits until the broker has carried out a test, and returns the condition that shows the result.
func awaitTest(ctx context.Context, c *connection, config *brokerv1alpha1.BrokerConfig, test string, timeout time.Duration) (*metav1.Condition, error) {
	var result *metav1.Condition
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, timeout, true, func(ctx context.Context) (bool, error) {
		if err := c.Get(ctx, client.ObjectKeyFromObject(config), config); err != nil {
			return false, err
		}
		result = meta.FindStatusCondition(config.Status.Conditions, brokerv1alpha1.ConditionNotificationTested)
		return result != nil && strings.HasPrefix(result.Message, test+": "), nil
	})
	if wait.Interrupted(err) {
		return nil, fmt.Errorf("the broker has not tested the channel within %s: is it running?", timeout)
	}
	return result, err
}

func channelNames(config *brokerv1alpha1.BrokerConfig) []string {
	names := []string{}
	for i := range config.Spec.Notifications {
		names = append(names, config.Spec.Notifications[i].Name)
	}
	return names
}

// completeChannels lists the channels of the BrokerConfig, for the first argument only.
func (p *plugin) completeChannels(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	c, err := p.connectBroker(ctx)
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	config, err := c.readConfig(ctx)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return channelNames(config), cobra.ShellCompDirectiveNoFileComp
}
