package app

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/uninstall"
)

// uninstallOptions are the flags of broker uninstall.
type uninstallOptions struct {
	uninstall.Options
	keepJournal bool
	carried     []string
}

func uninstallCommand() *cobra.Command {
	o := &uninstallOptions{Options: uninstall.Defaults(cluster.Namespace()), keepJournal: true}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Prepare the broker's uninstallation, or clean up after it.",
		Long: `Run it while the broker still works. It lists live Reservations. --policy says what
happens to them: Refuse prints the list and exits with 1, Drain deletes them and
waits until all their capacity is released, Ignore leaves them.

With --cleanup it runs after the broker was deleted, and deletes what Helm does not
know: finalizers, the lease, a BrokerConfig from the chart's values, Secrets that
cert-manager filled, enrolments, and journal and accounts unless they are kept. The
chart runs both as hooks of helm uninstall.`,
		Example: `  broker uninstall --namespace=liqo-resource-broker --policy=Drain --timeout=10m
  broker uninstall --namespace=liqo-resource-broker --cleanup --name=broker-liqo-resource-broker`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         o.Body(newScheme, o.newDeparture, o.cleanUp),
	}
	fs := cmd.Flags()
	cluster.BindKubeconfig(fs)
	o.Bind(fs, "broker")
	fs.BoolVar(&o.keepJournal, "keep-journal", o.keepJournal, "keep the journal, accounts and history on --cleanup")
	fs.StringSliceVar(&o.carried, "carried", nil, "clusters without enrolment, whose certificates --cleanup deletes")
	return cmd
}

func (o *uninstallOptions) newDeparture(c client.Client) uninstall.Departure {
	d := o.Departure()
	d.InUse = func(ctx context.Context) ([]string, error) {
		live, err := liveReservations(ctx, c)
		lines := make([]string, len(live))
		for i := range live {
			lines[i] = describeReservation(&live[i])
		}
		return lines, err
	}
	d.End = func(ctx context.Context) error { return endReservations(ctx, c) }
	d.Advice = "Delete the Reservations and ResourceRequests, then uninstall again. " + uninstall.Remedy
	return d
}

// liveReservations lists the reservations that are neither Released nor Failed. It returns none
// if the CRD is missing.
func liveReservations(ctx context.Context, c client.Reader) ([]brokerv1alpha1.Reservation, error) {
	list := &brokerv1alpha1.ReservationList{}
	if err := c.List(ctx, list); err != nil {
		if meta.IsNoMatchError(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("listing Reservations: %w", err)
	}
	var live []brokerv1alpha1.Reservation
	for i := range list.Items {
		switch list.Items[i].Status.Phase {
		case brokerv1alpha1.ReservationReleased, brokerv1alpha1.ReservationFailed:
		default:
			live = append(live, list.Items[i])
		}
	}
	return live, nil
}

func describeReservation(r *brokerv1alpha1.Reservation) string {
	line := fmt.Sprintf("Reservation %s/%s: %s", r.Namespace, r.Name, r.Status.Phase)
	if r.Status.TargetClusterID != "" {
		line += fmt.Sprintf(", %s uses %s", r.Spec.RequesterID, r.Status.TargetClusterID)
	}
	return line
}

func endReservations(ctx context.Context, c client.Client) error {
	live, err := liveReservations(ctx, c)
	if err != nil {
		return err
	}
	for i := range live {
		if r := &live[i]; r.DeletionTimestamp == nil {
			if err := client.IgnoreNotFound(c.Delete(ctx, r)); err != nil {
				return fmt.Errorf("deleting Reservation %s/%s: %w", r.Namespace, r.Name, err)
			}
		}
	}
	return nil
}

func (o *uninstallOptions) cleanUp(ctx context.Context, c client.Client, out io.Writer) error {
	made := uninstall.Made()
	if o.keepJournal {
		// Accounts, history and signed heads are kept with the journal, which they belong to.
		for _, label := range []string{journal.LabelJournal, replay.LabelAccounts, replay.LabelHistory, replay.LabelHead} {
			other, err := labels.NewRequirement(label, selection.DoesNotExist, nil)
			if err != nil {
				return err
			}
			made = made.Add(*other)
		}
	}
	issued := []string{"tls", "servers-ca", "agents-ca", "webhook-tls", "console-tls", "metrics-tls"}
	for _, id := range o.carried {
		issued = append(issued, "agent-"+id)
	}
	return o.CleanUp(ctx, c, out, func(cleanup *uninstall.Cleanup) []uninstall.Step {
		return []uninstall.Step{
			cleanup.Release(&brokerv1alpha1.ReservationList{}, brokerv1alpha1.ReservationFinalizer),
			cleanup.Delete(&coordinationv1.Lease{}, leaseName),
			cleanup.DeleteSecrets(o.Name, uninstall.IsIssued, issued...),
			cleanup.DeleteAll(uninstall.CertificateRequests(), uninstall.Made()),
			cleanup.DeleteAll(&corev1.ConfigMapList{}, made),
			cleanup.DeleteAll(&brokerv1alpha1.BrokerConfigList{}, uninstall.Made()),
		}
	})
}
