package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/leaving"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/uninstall"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// leaseName is the name of the lease for leader election.
const leaseName = "liqo-resource-broker-agent"

// uninstallOptions are the flags of agent uninstall.
type uninstallOptions struct {
	*options
	uninstall.Options
}

func uninstallCommand() *cobra.Command {
	o := &uninstallOptions{options: defaultOptions(), Options: uninstall.Defaults(cluster.Namespace())}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Prepare the agent's uninstallation, or clean up after it.",
		Long: `Run it while the agent still works. It lists what this cluster uses of other
clusters and lends to them. --policy says what happens then:

Refuse prints the list and exits with 1. Drain deletes the live ResourceRequests,
releases Reservations of the broker's cluster for this one, and withdraws this
cluster as a provider, so that the broker finds consumers another provider or
ends their reservations; it waits until both sides have taken everything down.
Ignore does nothing.

Before it drains, and before a deletion with nothing in use, it lets the agent
tell the broker that this cluster leaves, so that the broker places nothing new
here. If the agent is not uninstalled after all, the agent lends again.

With --cleanup it runs after the agent was deleted, and deletes what Helm does
not know: finalizers, the lease, the cluster's identity and Secrets that
cert-manager filled. The chart runs both as hooks of helm uninstall.`,
		Example: `  agent uninstall --policy=Drain --timeout=10m --broker-cert-path=/etc/agent/tls
  agent uninstall --namespace=liqo-resource-broker --cleanup --name=agent-liqo-resource-broker-agent`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         o.Body(newScheme, o.newDeparture, o.cleanUp),
	}
	fs := cmd.Flags()
	cluster.BindKubeconfig(fs)
	o.Bind(fs, "agent")
	fs.StringVar(&o.instructionNamespace, "instruction-namespace", o.instructionNamespace, "namespace of ReservationInstructions and ProviderInstructions")
	fs.StringSliceVar(&o.brokerURLs, "broker-url", o.brokerURLs, "https address of the broker, for --policy=Drain (default those of the enrolment)")
	o.bindMailboxes(fs)
	o.bindAdvertisement(fs)
	fs.StringVar(&o.certPath, "broker-cert-path", o.certPath, "folder with tls.crt, tls.key and ca.crt, for --policy=Drain")
	return cmd
}

func (o *uninstallOptions) newDeparture(c client.Client) uninstall.Departure {
	d := o.Departure()
	use := leaving.Uses{Client: c, Namespace: o.instructionNamespace, Release: o.releaseReservations}
	d.InUse, d.End = use.InUse, use.End
	l := o.newLeaver(c)
	d.Leave, d.Stay = l.StopLending, l.ResumeLending
	d.Advice = "Delete the ResourceRequests, wait until other clusters have released this cluster's capacity, then uninstall again. " + uninstall.Remedy
	return d
}

func (o *uninstallOptions) newLeaver(c client.Client) *leaving.Leaver {
	return leaving.NewLeaver(c, client.ObjectKey{Namespace: o.advertisementNamespace, Name: o.advertisementName}, o.Timeout, clock.RealClock{})
}

// releaseReservations asks the broker to release reservations that were created in its cluster.
func (o *uninstallOptions) releaseReservations(ctx context.Context, names []string) error {
	broker, err := openBroker(o.options)
	if err != nil {
		return fmt.Errorf("reservations %q were created in the broker's cluster, delete them there: %w", names, err)
	}
	defer broker.Close() //nolint:errcheck // it is not used any longer, so an error does not matter
	for _, name := range names {
		if _, err := broker.ReleaseReservation(ctx, name, ""); err != nil {
			return fmt.Errorf("releasing reservation %q: %w", name, err)
		}
	}
	return nil
}

// openBroker returns a transport to the broker, with the same settings as the agent.
func openBroker(o *options) (*httptransport.Transport, error) {
	if o.brokerKubeconfig != "" {
		return o.newTransport(nil)
	}
	if len(o.brokerURLs) == 0 && o.certPath != "" {
		text, err := os.ReadFile(filepath.Join(o.certPath, identity.BrokerURLsFile))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		o.brokerURLs = strings.Fields(string(text))
	}
	if len(o.brokerURLs) == 0 || o.certPath == "" {
		return nil, errors.New("neither flags nor the certificate's folder contain the broker's address")
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return nil, err
	}
	return o.newTransport(files)
}

func (o *uninstallOptions) cleanUp(ctx context.Context, c client.Client, out io.Writer) error {
	placeholders, err := labels.Parse(agentv1alpha1.PlaceholderLabel)
	if err != nil {
		return err
	}
	return o.CleanUp(ctx, c, out, func(cleanup *uninstall.Cleanup) []uninstall.Step {
		return []uninstall.Step{
			o.newLeaver(c).ResumeLending, // so that an agent that is installed later offers capacity again
			cleanup.Release(&agentv1alpha1.ResourceRequestList{}, agentv1alpha1.ReleaseFinalizer),
			cleanup.Release(&agentv1alpha1.QuoteList{}, agentv1alpha1.ReleaseFinalizer),
			cleanup.Release(&agentv1alpha1.ReservationInstructionList{}, agentv1alpha1.PeeringFinalizer),
			cleanup.Release(&agentv1alpha1.ProviderInstructionList{}, agentv1alpha1.PeeringFinalizer),
			cleanup.DeleteAll(&corev1.PodList{}, placeholders),
			cleanup.Delete(&coordinationv1.Lease{}, leaseName),
			cleanup.DeleteSecrets(o.Name, uninstall.IsIssued, "ca", "webhook-tls", "console-tls", "metrics-tls"),
			cleanup.DeleteSecrets(o.Name, uninstall.IsMade, "identity"),
		}
	})
}
