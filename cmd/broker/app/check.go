package app

import (
	"context"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// crdsAdvice is the remedy for missing or outdated CRDs.
const crdsAdvice = "install the CRDs of this version: helm upgrade with crds.enabled=true, or kubectl apply --server-side -f charts/broker/files/crds"

// checkOptions are the flags of broker check.
type checkOptions struct {
	*options
	url, enrolmentURL string
	name              string
	// leader is the finding of checkLeader.
	leader checkup.Finding
}

func checkCommand() *cobra.Command {
	o := &checkOptions{options: defaultOptions()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check this installation, and print the remedy for each problem.",
		Long: `Checks a broker's installation without changing anything: API server, CRDs,
leader, journal, configuration, clusters, mailboxes, certificates, listeners and webhooks.
It takes the flags of the checked broker, runs in its pod or anywhere else with
--kubeconfig, and exits with 1 if something does not work. The chart runs it for
helm test.`,
		Example: `  broker check --namespace=liqo-resource-broker --name=broker-liqo-resource-broker \
    --url=https://broker-liqo-resource-broker.liqo-resource-broker.svc:8443 --cert-path=/etc/broker/tls`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         checkup.Body(newScheme, o.buildChecks),
	}
	o.bindFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.url, "url", "", "https address of the broker for agents; not checked if unset")
	cmd.Flags().StringVar(&o.enrolmentURL, "enrolment-url", "", "https address of the enrolment listener; not checked if unset")
	cmd.Flags().StringVar(&o.name, "name", "", "name prefix of the release's objects; without it webhooks and policies are not checked")
	return cmd
}

func (o *checkOptions) buildChecks(config *rest.Config, c client.Client) ([]checkup.Check, error) {
	published, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	store, err := journal.NewConfigMaps(config, o.namespace)
	if err != nil {
		return nil, err
	}
	roots := ""
	if o.certPath != "" {
		roots = filepath.Join(o.certPath, pki.CAFile)
	}
	return []checkup.Check{
		checkup.APIServer(published),
		checkup.CRDs(published, brokerv1alpha1.GroupVersion, crdsAdvice, c.Scheme()),
		{Subject: "leader", Look: func(ctx context.Context) checkup.Finding { return o.checkLeader(ctx, c) }},
		{Subject: "journal", Look: func(ctx context.Context) checkup.Finding { return checkJournal(ctx, store) }},
		{Subject: "configuration", Look: func(ctx context.Context) checkup.Finding { return checkConfiguration(ctx, c) }},
		{Subject: "clusters", Look: func(ctx context.Context) checkup.Finding { return o.checkClusters(ctx, c) }},
		{Subject: "mailboxes", Look: func(ctx context.Context) checkup.Finding { return o.checkMailboxes(ctx, c, time.Now()) }},
		checkup.Certificates(c, o.namespace),
		checkup.Listener{URL: o.url, RootsFile: roots, Mutual: true, Now: time.Now}.Check("listener for agents"),
		checkup.Listener{URL: o.enrolmentURL, RootsFile: roots, Now: time.Now}.Check("listener for enrolment"),
		checkup.Webhooks(c, o.name, time.Now),
	}, nil
}

func checkJournal(ctx context.Context, store journal.Store) checkup.Finding {
	found, err := journal.Verify(ctx, store, broker.JournalName, journal.Options{})
	switch {
	case apierrors.IsForbidden(err):
		return checkup.Skip("this account may not read ConfigMaps: %v", err)
	case err != nil:
		return checkup.Fail("see docs/journal.md for the repair; if there is no journal, the broker was never ready: check its log", "%v", err)
	}
	return checkup.Found("%s is at position %d; %d records in %d segments are consistent", found.ID, found.Head, found.Records, found.Segments)
}

func checkConfiguration(ctx context.Context, c client.Reader) checkup.Finding {
	config := &brokerv1alpha1.BrokerConfig{}
	err := c.Get(ctx, client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config)
	if apierrors.IsNotFound(err) {
		return checkup.Found("there is no BrokerConfig, the defaults apply")
	}
	if err != nil {
		return checkup.Fail("", "%v", err)
	}
	ready := meta.FindStatusCondition(config.Status.Conditions, brokerv1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status == "Unknown" || config.Status.ObservedGeneration != config.Generation:
		return checkup.Warn("check with kubectl get pods that a broker is ready", "the broker has not processed generation %d of the BrokerConfig", config.Generation)
	case ready.Status != "True":
		return checkup.Fail("correct the BrokerConfig; until then the last valid one stays in force", "%s", ready.Message)
	}
	if n := len(config.Status.PendingEnrolments); n > 0 {
		return checkup.Warn("compare the fingerprints, then add known clusters to spec.approvedClusters", "in use; %d clusters wait for approval", n)
	}
	return checkup.Found("the BrokerConfig is in use")
}
