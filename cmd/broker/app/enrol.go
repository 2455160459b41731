package app

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/enrolment"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// agentChart returns the agent's chart that belongs to a version of the broker, as an argument of
// helm: the published one of a release, else the one in a checkout of the source.
func agentChart(version string) string {
	if number, ok := strings.CutPrefix(version, "v"); ok && released.MatchString(version) {
		return "oci://ghcr.io/mehdiazizian/charts/liqo-resource-broker-agent --version " + number
	}
	return "charts/agent"
}

var released = regexp.MustCompile(`^v[0-9]+[.][0-9]+[.][0-9]+$`)

func enrolCommand() *cobra.Command {
	namespace := cluster.Namespace()
	cmd := &cobra.Command{
		Use:   "enrol CLUSTER-ID",
		Short: "Create a token with which one cluster can enrol within an hour.",
		Long: `Creates a one-time token for a cluster, and prints the command that installs its
agent. The token is shown only here: the broker keeps its hash.

It runs in a pod of the broker, or anywhere else with --kubeconfig and the right to
create ConfigMaps in the broker's namespace.`,
		Example: `  kubectl --namespace liqo-resource-broker exec deployment/broker-liqo-resource-broker -- broker enrol rome
  broker enrol rome --kubeconfig=$HOME/.kube/config --namespace=liqo-resource-broker`,
		Args:         cobra.ExactArgs(1),
		SilenceUsage: true,
		RunE: cluster.RunOnce(newScheme, func(cmd *cobra.Command, args []string, _ *rest.Config, c client.Client) error {
			return printToken(cmd.Context(), c, cmd.OutOrStdout(), namespace, args[0], time.Now())
		}),
	}
	cmd.Flags().StringVar(&namespace, "namespace", namespace, "namespace of the broker; POD_NAMESPACE if set")
	cluster.BindKubeconfig(cmd.Flags())
	return cmd
}

func printToken(ctx context.Context, c client.Client, out io.Writer, namespace, clusterID string, now time.Time) error {
	facts, err := enrolment.ReadFacts(ctx, c, namespace)
	if err != nil {
		return err
	}
	made, err := enrolment.MakeToken(ctx, c, namespace, clusterID, now)
	if err != nil {
		return err
	}
	url := cmp.Or(facts.URL, "https://ADDRESS-OF-THE-BROKER:8444")
	_, err = fmt.Fprintf(out, `# Cluster %[1]s can enrol with this token until %[2]s.
# It works for the first key that uses it, and is not shown again.
%[3]s
# In %[1]s, run this, whether an agent is installed there or not. Unless Liqo's chart has apiServer.address,
# add the address of the API server as other clusters reach it: --set cluster.endpointURL=https://…:6443
helm upgrade --install agent %[4]s \
  --namespace liqo-resource-broker --create-namespace --reset-then-reuse-values --wait \
  --set cluster.id=%[1]s \
  --set enrolment.url=%[5]s \
  --set enrolment.caHash=%[6]s \
  --set enrolment.token=%[7]s

# or set the same in the chart's values:
cluster:
  id: %[1]s
enrolment:
  url: %[5]s
  caHash: %[6]s
  token: %[7]s
`, clusterID, made.Expires.Format(time.RFC3339), enrolNotes(facts, made), agentChart(version.String()), url, facts.CAHash, made.Text)
	return err
}

// enrolNotes returns lines for the output of enrol that tell the administrator what else must be
// done.
func enrolNotes(facts enrolment.Facts, made *enrolment.Made) string {
	text := ""
	if facts.URL == "" {
		text += "# The broker does not know its address: replace it below, or set --enrolment-public-url.\n"
	}
	if !made.Approved {
		text += "# Only approved clusters take part: add " + made.ClusterID + " to spec.approvedClusters of the BrokerConfig.\n"
	}
	return text
}
