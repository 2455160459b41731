package app

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// crdsAdvice is the remedy for missing or outdated CRDs.
const crdsAdvice = "install the CRDs of this version: helm upgrade with crds.enabled=true, or kubectl apply --server-side -f charts/agent/files/crds"

// checkOptions are the flags of agent check. It takes all flags of the agent, so that users can
// copy the arguments of the checked agent.
type checkOptions struct {
	*options
	name      string
	namespace string
}

func checkCommand() *cobra.Command {
	o := &checkOptions{options: defaultOptions(), namespace: cluster.Namespace()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check this installation, and print the remedy for each problem.",
		Long: `Checks an agent's installation without changing anything: API server, CRDs,
configuration file, the agent itself, certificates, webhooks and DaemonSets. It prints the
conditions of the Advertisement, in which the agent says what works: broker,
identity, Liqo, policies. It takes the flags of the checked agent, runs in a pod or
anywhere else with --kubeconfig, and exits with 1 if something does not work.
The chart runs it for helm test.`,
		Example:      `  agent check --namespace=liqo-resource-broker --name=agent-liqo-resource-broker-agent`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         checkup.Body(newScheme, o.buildChecks),
	}
	o.bindFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.namespace, "namespace", o.namespace, "namespace of the agent; POD_NAMESPACE if set")
	cmd.Flags().StringVar(&o.name, "name", "", "name prefix of the release's objects; without it webhooks are not checked")
	return cmd
}

func (o *checkOptions) buildChecks(ctx context.Context, config *rest.Config, c client.Client) ([]checkup.Check, error) {
	published, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	lease := checkup.Lease{ObjectKey: client.ObjectKey{Namespace: o.namespace, Name: leaseName}, Process: "agent", Now: time.Now}
	checks := []checkup.Check{
		checkup.APIServer(published),
		checkup.CRDs(published, agentv1alpha1.GroupVersion, crdsAdvice, c.Scheme()),
		checkup.Known("configuration", o.checkConfiguration()),
		{Subject: "agent", Look: func(ctx context.Context) checkup.Finding {
			return lease.Check(ctx, c, "the agent runs without --leader-elect, or in another --namespace")
		}},
	}
	checks = append(checks, o.checkAdvertisement(ctx, c)...)
	return append(checks, checkup.Certificates(c, o.namespace), checkup.Webhooks(c, o.name),
		checkup.Check{Subject: "DaemonSets", Look: func(ctx context.Context) checkup.Finding { return checkDaemonSets(ctx, c) }}), nil
}

// checkConfiguration checks the configuration file as the agent does.
func (o *checkOptions) checkConfiguration() checkup.Finding {
	if o.configFile == "" {
		return checkup.Skip("--config is not given")
	}
	if _, err := configuration.Read(o.configFile, o.checkElastic); err != nil {
		return checkup.Fail("correct the file; until the agent restarts, the last valid configuration stays in force", "%v", err)
	}
	return checkup.Found("%s is valid", o.configFile)
}

// checkAdvertisement returns a check for each condition of the Advertisement.
func (o *checkOptions) checkAdvertisement(ctx context.Context, c client.Reader) []checkup.Check {
	adv := &agentv1alpha1.Advertisement{}
	err := c.Get(ctx, client.ObjectKey{Namespace: o.advertisementNamespace, Name: o.advertisementName}, adv)
	switch {
	case apierrors.IsNotFound(err):
		return []checkup.Check{{Subject: "advertisement", Look: o.explainMissing}}
	case err != nil:
		return []checkup.Check{checkup.Known("advertisement", checkup.Fail("", "%v", err))}
	case len(adv.Status.Conditions) == 0:
		return []checkup.Check{checkup.Known("advertisement", checkup.Fail("read the agent's log", "the agent has not set its status yet"))}
	}
	return checkup.Conditions(view.OfAdvertisement, adv.Status.Conditions)
}

// explainMissing explains why there is no Advertisement. An agent makes it once it has a
// certificate, so explainMissing calls the enrolment listener: the most frequent cause is a wrong
// address or CA hash.
func (o *checkOptions) explainMissing(ctx context.Context) checkup.Finding {
	const what = "the agent has not made its Advertisement yet"
	const advice = "read the agent's log: its token may be used or expired, an administrator of the broker may have to approve the cluster, or it has no certificate; broker enrol CLUSTER-ID in the broker's cluster prints the command that enrols it"
	if o.enrolmentURL == "" {
		return checkup.Fail(advice, what)
	}
	enroller, err := httptransport.NewEnroller(httptransport.EnrollerOptions{
		URL: o.enrolmentURL, CAHashes: o.enrolmentCAHashes, Now: time.Now, UserAgent: userAgent(),
	})
	if err == nil {
		_, err = enroller.Rules(ctx)
	}
	if err != nil {
		return checkup.Fail("correct enrolment.url and enrolment.caHash in the chart's values, which broker enrol prints, or the network to the broker", "%s, and its enrolment fails: %v", what, err)
	}
	return checkup.Fail(advice, "%s; the enrolment listener answers", what)
}
