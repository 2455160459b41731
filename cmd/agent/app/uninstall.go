package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/uninstall"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
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
	d.InUse = func(ctx context.Context) ([]string, error) {
		found, err := o.findUse(ctx, c)
		return found.describeLines(), err
	}
	l := o.newLeaver(c, d.Clock)
	d.Leave, d.Stay = l.stopLending, l.resumeLending
	d.End = func(ctx context.Context) error { return o.endUse(ctx, c) }
	d.Advice = "Delete the ResourceRequests, wait until other clusters have released this cluster's capacity, then uninstall again. " + uninstall.Remedy
	return d
}

// use lists the capacity that this cluster uses of other clusters, and the capacity that it lends to them.
type use struct {
	requests []agentv1alpha1.ResourceRequest
	consumed []agentv1alpha1.ReservationInstruction
	provided []agentv1alpha1.ProviderInstruction
}

// findUse lists what this cluster uses and lends. It leaves out requests that have ended. It includes all instructions:
// the agent deletes an instruction once nothing of its placement is left.
func (o *uninstallOptions) findUse(ctx context.Context, c client.Reader) (use, error) {
	requests, consumed, provided := &agentv1alpha1.ResourceRequestList{}, &agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{}
	err := errors.Join(
		listObjects(ctx, c, requests), listObjects(ctx, c, consumed, client.InNamespace(o.instructionNamespace)),
		listObjects(ctx, c, provided, client.InNamespace(o.instructionNamespace)),
	)
	found := use{consumed: consumed.Items, provided: provided.Items}
	for i := range requests.Items {
		switch requests.Items[i].Status.Phase {
		case agentv1alpha1.RequestReleased, agentv1alpha1.RequestFailed:
		default:
			found.requests = append(found.requests, requests.Items[i])
		}
	}
	return found, err
}

// listObjects lists objects. If the CRD is missing, the list stays empty.
func listObjects(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	err := c.List(ctx, list, options...)
	if err == nil || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("listing %T: %w", list, err)
}

func (u use) describeLines() []string {
	var out []string
	for i := range u.requests {
		r := &u.requests[i]
		line := fmt.Sprintf("ResourceRequest %s/%s: %s", r.Namespace, r.Name, r.Status.Phase)
		if r.Status.TargetClusterID != "" {
			line += fmt.Sprintf(", uses %s (%s)", r.Status.TargetClusterID, r.Status.ReservationName)
		}
		out = append(out, line)
	}
	for i := range u.consumed {
		r := &u.consumed[i]
		if u.servesRequest(r) {
			continue // the line of its request is enough
		}
		out = append(out, fmt.Sprintf("ReservationInstruction %s/%s: %s, uses %s", r.Namespace, r.Name, r.Status.Phase, r.Spec.TargetClusterID))
	}
	for i := range u.provided {
		p := &u.provided[i]
		out = append(out, fmt.Sprintf("ProviderInstruction %s/%s: %s, lends to %s", p.Namespace, p.Name, p.Status.Phase, p.Spec.RequesterClusterID))
	}
	return out
}

// servesRequest reports whether an instruction serves one of u.requests.
func (u use) servesRequest(inst *agentv1alpha1.ReservationInstruction) bool {
	ref := inst.Spec.RequestRef
	return ref != nil && slices.ContainsFunc(u.requests, func(r agentv1alpha1.ResourceRequest) bool { return string(r.UID) == ref.UID })
}

// endUse starts to end everything in use: it deletes requests and withdraws from placements. The agent, which still
// runs, does the rest.
func (o *uninstallOptions) endUse(ctx context.Context, c client.Client) error {
	found, err := o.findUse(ctx, c)
	if err != nil {
		return err
	}
	var trouble []error
	for i := range found.requests {
		if r := &found.requests[i]; r.DeletionTimestamp == nil {
			trouble = append(trouble, client.IgnoreNotFound(c.Delete(ctx, r)))
		}
	}
	trouble = append(trouble, o.releaseBrokerReservations(ctx, found.consumed))
	for i := range found.provided {
		trouble = append(trouble, withdrawPlacement(ctx, c, &found.provided[i], metav1.Now()))
	}
	return errors.Join(trouble...)
}

// releaseBrokerReservations asks the broker to release the reservations that were created in the broker's cluster. This
// cluster has no request for them that could be deleted.
func (o *uninstallOptions) releaseBrokerReservations(ctx context.Context, consumed []agentv1alpha1.ReservationInstruction) error {
	var names []string
	for i := range consumed {
		if consumed[i].Spec.RequestRef == nil && !consumed[i].Spec.Release {
			names = append(names, consumed[i].Spec.ReservationName)
		}
	}
	if len(names) == 0 {
		return nil
	}
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

// brokerURLsFile is a file in the folder with an enrolled agent's certificate. It contains the
// addresses of the broker, one per line.
const brokerURLsFile = "broker-urls"

// openBroker returns a transport to the broker, with the same settings as the agent.
func openBroker(o *options) (*httptransport.Transport, error) {
	if o.brokerKubeconfig != "" {
		return o.newTransport(nil)
	}
	if len(o.brokerURLs) == 0 && o.certPath != "" {
		text, err := os.ReadFile(filepath.Join(o.certPath, brokerURLsFile))
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

// withdrawPlacement withdraws this cluster's acknowledgement of a placement. The agent reports this to the broker,
// which finds another provider for the consumer or ends the reservation. Running pods stay until the consumer has
// removed its side of the placement.
func withdrawPlacement(ctx context.Context, c client.Client, inst *agentv1alpha1.ProviderInstruction, now metav1.Time) error {
	if inst.Spec.Release || meta.IsStatusConditionFalse(inst.Status.Conditions, agentv1alpha1.ConditionAcknowledged) {
		return nil
	}
	before := inst.DeepCopy()
	meta.SetStatusCondition(&inst.Status.Conditions, metav1.Condition{
		Type: agentv1alpha1.ConditionAcknowledged, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonDraining,
		Message: "this cluster stops lending: its agent is being uninstalled", ObservedGeneration: inst.Generation, LastTransitionTime: now,
	})
	err := c.Status().Patch(ctx, inst, patch.IfUnchanged(before))
	if err = client.IgnoreNotFound(err); err != nil {
		return fmt.Errorf("withdrawing from %q: %w", inst.Name, err)
	}
	return nil
}

func (o *uninstallOptions) cleanUp(ctx context.Context, c client.Client, out io.Writer) error {
	placeholders, err := labels.Parse(agentv1alpha1.PlaceholderLabel)
	if err != nil {
		return err
	}
	return o.CleanUp(ctx, c, out, func(cleanup *uninstall.Cleanup) []uninstall.Step {
		return []uninstall.Step{
			o.newLeaver(c, clock.RealClock{}).resumeLending, // so that an agent that is installed later offers capacity again
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
