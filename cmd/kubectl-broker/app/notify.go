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
		ValidArgsFunction: p.completeFirst(listChannels),
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the result")
	return p.newAction(cmd, false, func(ctx context.Context, a *action, args []string) error { return a.testChannel(ctx, args[0], timeout) })
}

func (a *action) testChannel(ctx context.Context, channel string, timeout time.Duration) error {
	c, err := a.connectBroker()
	if err != nil {
		return err
	}
	names, err := listChannels(ctx, c)
	if err != nil {
		return err
	}
	if !slices.Contains(names, channel) {
		return fmt.Errorf("spec.notifications of the BrokerConfig has no channel %q: it has %q", channel, names)
	}
	config, test := edits.NewConfig(), channel+"/"+strconv.FormatInt(a.now().UnixNano(), 36)
	err = a.change(c, "", func(to client.Client) (done string, err error) {
		if a.isDry() {
			done = "the broker would send a test to " + channel
		}
		return done, edits.Patch(ctx, to, config, func(*brokerv1alpha1.BrokerConfig) error {
			metav1.SetMetaDataAnnotation(&config.ObjectMeta, brokerv1alpha1.NotifyTestAnnotation, test)
			return nil
		})
	})
	if err != nil || a.isDry() {
		return err
	}
	var result *metav1.Condition
	late := func() error {
		return fmt.Errorf("the broker has not tested the channel within %s: is it running?", timeout)
	}
	err = c.await(ctx, timeout, config, late, func() (bool, error) {
		result = meta.FindStatusCondition(config.Status.Conditions, brokerv1alpha1.ConditionNotificationTested)
		return result != nil && strings.HasPrefix(result.Message, test+": "), nil
	})
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
