package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// crdsAdvice is the remedy for missing or outdated CRDs.
const crdsAdvice = "install the CRDs of this version: helm upgrade with crds.enabled=true, or kubectl apply --server-side -f charts/broker/files/crds"

// checkOptions are the flags of broker check.
type checkOptions struct {
	*options
	url, enrolmentURL string
	name              string
}

func checkCommand() *cobra.Command {
	o := &checkOptions{options: defaultOptions()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check this installation, and print the remedy for each problem.",
		Long: `Checks a broker's installation without changing anything: API server, CRDs,
leader, journal, certificates, listeners and webhooks. It prints the conditions of
the BrokerConfig and which clusters take new reservations. It takes the flags of the
checked broker, runs in its pod or anywhere else with --kubeconfig, and exits with 1
if something does not work. The chart runs it for helm test.`,
		Example: `  broker check --namespace=liqo-resource-broker --name=broker-liqo-resource-broker \
    --url=https://broker-liqo-resource-broker.liqo-resource-broker.svc:8443 --cert-path=/etc/broker/tls`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         checkup.Body(newScheme, o.buildChecks),
	}
	o.bindFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.url, "url", "", "https address of the broker for agents; not checked if unset")
	cmd.Flags().StringVar(&o.enrolmentURL, "enrolment-url", "", "https address of the enrolment listener; not checked if unset")
	cmd.Flags().StringVar(&o.name, "name", "", "name prefix of the release's objects; without it webhooks are not checked")
	return cmd
}

func (o *checkOptions) buildChecks(_ context.Context, config *rest.Config, c client.Client) ([]checkup.Check, error) {
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
	lease := checkup.Lease{ObjectKey: client.ObjectKey{Namespace: o.namespace, Name: leaseName}, Process: "broker", Now: time.Now}
	return []checkup.Check{
		checkup.APIServer(published),
		checkup.CRDs(published, brokerv1alpha1.GroupVersion, crdsAdvice, c.Scheme()),
		{Subject: "leader", Look: func(ctx context.Context) checkup.Finding {
			return lease.Check(ctx, c, "the broker runs without --leader-elect, or in another --namespace")
		}},
		{Subject: "journal", Look: func(ctx context.Context) checkup.Finding { return checkJournal(ctx, store) }},
		{Subject: "configuration", Look: func(ctx context.Context) checkup.Finding { return checkConfiguration(ctx, c) }},
		{Subject: "clusters", Look: func(ctx context.Context) checkup.Finding { return checkClusters(ctx, c) }},
		checkup.Certificates(c, o.namespace),
		checkup.Listener{URL: o.url, RootsFile: roots, Mutual: true, Now: time.Now}.Check("listener for agents"),
		checkup.Listener{URL: o.enrolmentURL, RootsFile: roots, Now: time.Now}.Check("listener for enrolment"),
		checkup.Webhooks(c, o.name),
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
	if ready == nil || config.Status.ObservedGeneration != config.Generation {
		return checkup.Warn("check with kubectl get pods that a broker is ready", "the broker has not processed generation %d of the BrokerConfig", config.Generation)
	}
	found := checkup.OfCondition(view.OfConfig, ready)
	if n := len(config.Status.PendingEnrolments); n > 0 && found.Level == checkup.OK {
		return checkup.Warn("compare the fingerprints, then add known clusters to spec.approvedClusters", "in use; %d clusters wait for approval", n)
	}
	return found
}

// checkClusters counts the clusters that take new reservations, and lists the others by the reason
// of their condition Ready. It never fails because of a cluster: the installation of the broker is
// not the cause.
func checkClusters(ctx context.Context, c client.Reader) checkup.Finding {
	list := &brokerv1alpha1.ClusterAdvertisementList{}
	if err := c.List(ctx, list); err != nil {
		return checkup.Fail("", "%v", err)
	}
	if len(list.Items) == 0 {
		return checkup.Warn("install an agent in a cluster that should lend, see docs/install.md", "no cluster has advertised capacity")
	}
	open, closed := 0, map[string][]string{}
	remedies, warns := []string{}, false
	for i := range list.Items {
		ready := meta.FindStatusCondition(list.Items[i].Status.Conditions, brokerv1alpha1.ConditionReady)
		if ready == nil {
			ready = &metav1.Condition{Status: metav1.ConditionUnknown, Reason: "Pending"}
		}
		if ready.Status == metav1.ConditionTrue {
			open++
			continue
		}
		closed[ready.Reason] = append(closed[ready.Reason], list.Items[i].Spec.ClusterID)
		found := checkup.OfCondition(view.OfCluster, ready)
		if found.Level != checkup.OK {
			warns, remedies = true, append(remedies, cmp.Or(found.Advice, ready.Message))
		}
	}
	text := fmt.Sprintf("%d of %d take new reservations", open, len(list.Items))
	for _, reason := range slices.Sorted(maps.Keys(closed)) {
		text += fmt.Sprintf("; %s: %s", reason, strings.Join(closed[reason], ", "))
	}
	if warns {
		slices.Sort(remedies)
		return checkup.Warn(strings.Join(slices.Compact(remedies), "; "), "%s", text)
	}
	return checkup.Found("%s", text)
}
