package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/uninstall"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
)

// leaseName is that of the lease of --leader-elect.
const leaseName = "liqo-resource-broker-agent"

// uninstallOptions say how the agent goes.
type uninstallOptions struct {
	*options
	uninstall.Options
}

func uninstallCommand() *cobra.Command {
	o := &uninstallOptions{options: defaults(), Options: uninstall.Defaults(cluster.Namespace())}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Prepare that the agent is uninstalled, or clean up after it.",
		Long: `Before the agent is deleted, and while it still works, this looks for what this
cluster uses of others and lends to others. --policy says what becomes of it:

Refuse names it and exits with 1. Drain deletes the live ResourceRequests, gives back
what was reserved for this cluster in the broker's, and withdraws this cluster as a
provider, so that the broker finds others another one or ends their reservations; it
waits until everything is taken down on both sides. Ignore leaves it.

With --cleanup, after the agent is gone, it removes what Helm does not know of:
finalizers, the lease, the cluster's identity and Secrets that cert-manager filled.
The chart runs both as hooks of helm uninstall.`,
		Example: `  agent uninstall --policy=Drain --timeout=10m --broker-cert-path=/etc/agent/tls
  agent uninstall --namespace=liqo-resource-broker --cleanup --name=agent-liqo-resource-broker-agent`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         o.Body(newScheme, o.departure, o.cleanUp),
	}
	fs := cmd.Flags()
	cluster.BindKubeconfig(fs)
	o.Bind(fs, "agent")
	fs.StringVar(&o.instructionNamespace, "instruction-namespace", o.instructionNamespace, "namespace of ReservationInstructions and ProviderInstructions")
	fs.StringSliceVar(&o.brokerURLs, "broker-url", o.brokerURLs, "https address of the broker, for --policy=Drain; those that an enrolled agent was told if unset")
	o.bindMailboxes(fs)
	fs.StringVar(&o.certPath, "broker-cert-path", o.certPath, "folder with tls.crt, tls.key and ca.crt, for --policy=Drain")
	return cmd
}

func (o *uninstallOptions) departure(c client.Client) uninstall.Departure {
	d := o.Departure()
	d.InUse = func(ctx context.Context) ([]string, error) {
		found, err := o.inUse(ctx, c)
		return found.lines(), err
	}
	d.End = func(ctx context.Context) error { return o.end(ctx, c) }
	d.Advice = "Delete the ResourceRequests and wait until those who use this cluster are done, then uninstall again. " + uninstall.Remedy
	return d
}

// use is what this cluster takes part in.
type use struct {
	requests []agentv1alpha1.ResourceRequest
	consumed []agentv1alpha1.ReservationInstruction
	provided []agentv1alpha1.ProviderInstruction
}

// inUse leaves out requests that are over. Instructions go when nothing of them is
// left, so each that is there counts.
func (o *uninstallOptions) inUse(ctx context.Context, c client.Reader) (use, error) {
	requests, consumed, provided := &agentv1alpha1.ResourceRequestList{}, &agentv1alpha1.ReservationInstructionList{}, &agentv1alpha1.ProviderInstructionList{}
	err := errors.Join(
		listKind(ctx, c, requests), listKind(ctx, c, consumed, client.InNamespace(o.instructionNamespace)),
		listKind(ctx, c, provided, client.InNamespace(o.instructionNamespace)),
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

// listKind finds nothing where the kind is not installed.
func listKind(ctx context.Context, c client.Reader, list client.ObjectList, options ...client.ListOption) error {
	err := c.List(ctx, list, options...)
	if err == nil || meta.IsNoMatchError(err) {
		return nil
	}
	return fmt.Errorf("listing %T: %w", list, err)
}

func (u use) lines() []string {
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
		if u.serves(r) {
			continue // its request is listed
		}
		out = append(out, fmt.Sprintf("ReservationInstruction %s/%s: %s, uses %s", r.Namespace, r.Name, r.Status.Phase, r.Spec.TargetClusterID))
	}
	for i := range u.provided {
		p := &u.provided[i]
		out = append(out, fmt.Sprintf("ProviderInstruction %s/%s: %s, lends to %s", p.Namespace, p.Name, p.Status.Phase, p.Spec.RequesterClusterID))
	}
	return out
}

// serves reports whether an instruction is for one of the requests.
func (u use) serves(inst *agentv1alpha1.ReservationInstruction) bool {
	ref := inst.Spec.RequestRef
	return ref != nil && slices.ContainsFunc(u.requests, func(r agentv1alpha1.ResourceRequest) bool { return string(r.UID) == ref.UID })
}

// end asks for the end of everything. The agent, which still works, does the rest.
func (o *uninstallOptions) end(ctx context.Context, c client.Client) error {
	found, err := o.inUse(ctx, c)
	if err != nil {
		return err
	}
	var trouble []error
	for i := range found.requests {
		if r := &found.requests[i]; r.DeletionTimestamp == nil {
			trouble = append(trouble, client.IgnoreNotFound(c.Delete(ctx, r)))
		}
	}
	trouble = append(trouble, o.giveBack(ctx, found.consumed))
	for i := range found.provided {
		trouble = append(trouble, withdraw(ctx, c, &found.provided[i], metav1.Now()))
	}
	return errors.Join(trouble...)
}

// giveBack ends what was reserved for this cluster in the broker's: no object here
// stands for it that could be deleted.
func (o *uninstallOptions) giveBack(ctx context.Context, consumed []agentv1alpha1.ReservationInstruction) error {
	var names []string
	for i := range consumed {
		if consumed[i].Spec.RequestRef == nil && !consumed[i].Spec.Release {
			names = append(names, consumed[i].Spec.ReservationName)
		}
	}
	if len(names) == 0 {
		return nil
	}
	broker, err := connect(o.options)
	if err != nil {
		return fmt.Errorf("reservations %q were made in the broker's cluster, delete them there: %w", names, err)
	}
	defer broker.Close() //nolint:errcheck // nothing is left to do with it
	for _, name := range names {
		if _, err := broker.ReleaseReservation(ctx, name); err != nil {
			return fmt.Errorf("giving back reservation %q: %w", name, err)
		}
	}
	return nil
}

// withdraw takes back this cluster's word to provide. Its agent tells the broker, which
// finds the consumer another provider or ends the reservation; what runs here stays
// until the consumer has taken down its side.
func withdraw(ctx context.Context, c client.Client, inst *agentv1alpha1.ProviderInstruction, now metav1.Time) error {
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
	return o.CleanUp(ctx, c, out, func(cleanup *uninstall.Cleanup) []uninstall.Step {
		return []uninstall.Step{
			cleanup.Release(&agentv1alpha1.ResourceRequestList{}, agentv1alpha1.ReleaseFinalizer),
			cleanup.Release(&agentv1alpha1.ReservationInstructionList{}, agentv1alpha1.PeeringFinalizer),
			cleanup.Release(&agentv1alpha1.ProviderInstructionList{}, agentv1alpha1.PeeringFinalizer),
			cleanup.DeletePods(agentv1alpha1.PlaceholderLabel),
			cleanup.Delete(&coordinationv1.Lease{}, leaseName),
			cleanup.DeleteIssued(o.Name, "ca", "webhook-tls", "metrics-tls"),
			cleanup.DeleteMade(o.Name, "identity"),
		}
	})
}
