package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newEnrolmentsCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "enrolments",
		Short:   "List the clusters that ask to take part, and those that are approved or denied.",
		Example: `  kubectl broker enrolments --context broker`,
		Args:    cobra.NoArgs,
	}
	output := newOutput(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := p.connectBroker()
		if err != nil {
			return err
		}
		config, err := c.readConfig(cmd.Context())
		if err != nil {
			return err
		}
		enrolments := view.NewEnrolments(config)
		return p.writeRows(output, enrolments, enrolments.Table(p.now()), nil, "no cluster asks, is approved or denied by name")
	}
	return cmd
}

// connectBroker connects to the cluster that the flags select. It returns an error if that is
// not a broker's cluster.
func (p *plugin) connectBroker() (*connection, error) {
	c, err := p.connectSelected()
	if err != nil {
		return nil, err
	}
	if !c.broker {
		return nil, newUsageError("%s is a member: name the broker's with --context", c.describeRoles())
	}
	return c, nil
}

// readConfig returns the BrokerConfig. If there is none, it returns an empty one.
func (c *connection) readConfig(ctx context.Context) (*brokerv1alpha1.BrokerConfig, error) {
	config := edits.NewConfig()
	return config, client.IgnoreNotFound(c.Get(ctx, client.ObjectKeyFromObject(config), config))
}

func newApproveCommand(p *plugin) *cobra.Command {
	fingerprint := ""
	cmd := &cobra.Command{
		Use:   "approve CLUSTER-ID --fingerprint sha256:...",
		Short: "Let a cluster take part that asks for it without a token.",
		Long: `Adds a cluster and the fingerprint of its key to approvedClusters of the BrokerConfig.
The fingerprint must be that of the cluster's pending request. Take it from the log of
the cluster's agent, not from this cluster: whoever asked first is listed here, under
whatever name it likes.`,
		Example:           `  kubectl broker approve bern --fingerprint sha256:9f2c...`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listPending),
	}
	cmd.Flags().StringVar(&fingerprint, "fingerprint", "", "fingerprint of the cluster's key, as its agent logs it")
	return p.newAction(cmd, true, func(ctx context.Context, a *action, args []string) error {
		if !strings.HasPrefix(fingerprint, "sha256:") {
			return newUsageError("--fingerprint must be given, as the agent of %s logs it: sha256: and 64 digits", args[0])
		}
		question := fmt.Sprintf("Approve cluster %s with key %s?", args[0], fingerprint)
		return a.changeBroker(ctx, question, func(config *brokerv1alpha1.BrokerConfig) (string, error) {
			return args[0] + " approved", edits.ApproveCluster(config, args[0], fingerprint)
		})
	})
}

func newDenyCommand(p *plugin) *cobra.Command {
	return p.newAction(&cobra.Command{
		Use:   "deny CLUSTER-ID",
		Short: "Shut a cluster out.",
		Long: `Adds a cluster to deniedClusters of the BrokerConfig: within two seconds its agent can
no longer call the broker, and it gets nothing and provides nothing new. What it holds
and provides stays until it ends in the usual ways.`,
		Example:           `  kubectl broker deny evil --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listPending),
	}, true, func(ctx context.Context, a *action, args []string) error {
		return a.changeBroker(ctx, "Shut cluster "+args[0]+" out?", func(config *brokerv1alpha1.BrokerConfig) (string, error) {
			if !slices.Contains(config.Spec.DeniedClusters, args[0]) {
				config.Spec.DeniedClusters = append(config.Spec.DeniedClusters, args[0])
			}
			return args[0] + " denied", nil
		})
	})
}
