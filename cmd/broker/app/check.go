package app

import (
	"context"
	"path/filepath"
	"strings"
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

// kindsAdvice is what to do where kinds are missing or old.
const kindsAdvice = "install the kinds of this version: helm upgrade with crds.enabled=true, or kubectl apply --server-side -f charts/broker/files/crds"

// checkOptions are what an installation is looked at by.
type checkOptions struct {
	*options
	url, enrolmentURL string
	name              string
}

func checkCommand() *cobra.Command {
	o := &checkOptions{options: defaults()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what of this installation is healthy, what is not and what to do.",
		Long: `Looks at a broker's installation and changes nothing: API server, kinds, journal,
configuration, clusters, mailboxes, certificates, listeners and webhooks. It takes the
flags of the broker it looks at, runs as well in its pod as from elsewhere with
--kubeconfig, and exits with 1 if something does not work. The chart runs it for helm
test.`,
		Example: `  broker check --namespace=liqo-resource-broker --name=broker-liqo-resource-broker \
    --url=https://broker-liqo-resource-broker.liqo-resource-broker.svc:8443 --cert-path=/etc/broker/tls`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         checkup.Body(newScheme, o.checks),
	}
	o.bind(cmd.Flags())
	cmd.Flags().StringVar(&o.url, "url", "", "https address at which the broker is asked as agents would; not asked if unset")
	cmd.Flags().StringVar(&o.enrolmentURL, "enrolment-url", "", "https address of the enrolment listener; not asked if unset")
	cmd.Flags().StringVar(&o.name, "name", "", "what the release's objects are named: webhooks and the policy of mailboxes are looked at by it, not at all if unset")
	return cmd
}

func (o *checkOptions) checks(config *rest.Config, c client.Client) ([]checkup.Check, error) {
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
		checkup.Kinds(published, brokerv1alpha1.GroupVersion, kindsAdvice,
			&brokerv1alpha1.ClusterAdvertisement{}, &brokerv1alpha1.Reservation{}, &brokerv1alpha1.BrokerConfig{}, &brokerv1alpha1.ClusterMailbox{}),
		{Subject: "journal", Look: func(ctx context.Context) checkup.Finding { return checkJournal(ctx, store) }},
		{Subject: "configuration", Look: func(ctx context.Context) checkup.Finding { return checkConfiguration(ctx, c) }},
		{Subject: "clusters", Look: func(ctx context.Context) checkup.Finding { return checkClusters(ctx, c) }},
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
		return checkup.Fail("docs/journal.md tells how to repair it; if there is none yet, the broker has never been ready: look at its log", "%v", err)
	}
	return checkup.Found("%s stands at position %d; %d records in %d segments fit together", found.ID, found.Head, found.Records, found.Segments)
}

func checkConfiguration(ctx context.Context, c client.Reader) checkup.Finding {
	config := &brokerv1alpha1.BrokerConfig{}
	err := c.Get(ctx, client.ObjectKey{Name: brokerv1alpha1.BrokerConfigName}, config)
	if apierrors.IsNotFound(err) {
		return checkup.Found("there is no BrokerConfig, the defaults hold")
	}
	if err != nil {
		return checkup.Fail("", "%v", err)
	}
	ready := meta.FindStatusCondition(config.Status.Conditions, brokerv1alpha1.ConditionReady)
	switch {
	case ready == nil || ready.Status == "Unknown" || config.Status.ObservedGeneration != config.Generation:
		return checkup.Warn("is a broker ready? kubectl get pods tells", "the broker has not taken up generation %d of the BrokerConfig", config.Generation)
	case ready.Status != "True":
		return checkup.Fail("change the BrokerConfig; what held before holds until then", "%s", ready.Message)
	}
	if n := len(config.Status.PendingEnrolments); n > 0 {
		return checkup.Warn("compare the fingerprints, then add those you know to spec.approvedClusters", "in use; %d clusters wait to be approved", n)
	}
	return checkup.Found("the BrokerConfig is in use")
}

func checkClusters(ctx context.Context, c client.Reader) checkup.Finding {
	list := &brokerv1alpha1.ClusterAdvertisementList{}
	if err := c.List(ctx, list); err != nil {
		return checkup.Fail("", "%v", err)
	}
	var silent []string
	for i := range list.Items {
		if adv := &list.Items[i]; !meta.IsStatusConditionTrue(adv.Status.Conditions, brokerv1alpha1.ConditionFresh) {
			silent = append(silent, adv.Spec.ClusterID)
		}
	}
	switch {
	case len(list.Items) == 0:
		return checkup.Warn("install an agent in a cluster that shall lend, see docs/install.md", "none has advertised anything")
	case len(silent) > 0:
		return checkup.Warn("look at their agents; until they are heard of again nothing new is placed there",
			"%d of %d are not fresh: %s", len(silent), len(list.Items), strings.Join(silent, ", "))
	}
	return checkup.Found("%d, all fresh", len(list.Items))
}
