package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

type amountFlags struct {
	cpu, memory string
	resources   map[string]string
}

func (f *amountFlags) bindFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cpu, "cpu", "", "cores, for example 2 or 500m")
	cmd.Flags().StringVar(&f.memory, "memory", "", "memory with a unit, for example 4Gi")
	cmd.Flags().StringToStringVar(&f.resources, "resource", nil, "other resources, for example nvidia.com/gpu=1")
}

func (f *amountFlags) parseAmounts() (corev1.ResourceList, error) {
	list, err := view.ParseAmounts(f.cpu, f.memory, f.resources)
	if err != nil {
		return nil, usageError{err}
	}
	return list, nil
}

type reserveFlags struct {
	amountFlags
	duration, queueTimeout, timeout time.Duration
	priority                        int32
	queue, wait                     bool
	requester, provider, quote      string
}

func (f *reserveFlags) bindDemand(cmd *cobra.Command) {
	f.bindFlags(cmd)
	cmd.Flags().DurationVar(&f.duration, "for", 0, "how long to hold the capacity; unset: until it is released, or defaultTTL at the broker")
	cmd.Flags().Int32Var(&f.priority, "priority", 0, "priority among waiting requests; the highest comes first")
	cmd.Flags().BoolVar(&f.queue, "queue", false, "wait in the queue if no cluster has room")
	cmd.Flags().StringVar(&f.requester, "requester", "", "at the broker: ID of the cluster that uses the capacity")
	cmd.Flags().StringVar(&f.provider, "provider", "", "at the broker: ID of the only cluster that may provide")
}

func newReserveCommand(p *plugin) *cobra.Command {
	f := &reserveFlags{}
	cmd := &cobra.Command{
		Use:   "reserve NAME",
		Short: "Ask for capacity of another cluster.",
		Long: `Makes a ResourceRequest in a member cluster, or a Reservation in the broker's cluster
for the cluster that --requester names. With --wait it follows the request until its
node is Ready, and prints the phases as they come. For pod shapes and constraints write
a manifest instead.`,
		Example: `  kubectl broker reserve my-request --cpu 2 --memory 4Gi --for 8h --wait
  kubectl broker reserve training --cpu 8 --memory 32Gi --resource nvidia.com/gpu=1 --queue
  kubectl broker reserve my-request --cpu 2 --memory 4Gi --for 8h --quote my-quote
  kubectl broker reserve my-request --cpu 2 --memory 4Gi --dry-run`,
		Args: cobra.ExactArgs(1),
	}
	f.bindDemand(cmd)
	cmd.Flags().DurationVar(&f.queueTimeout, "queue-timeout", 0, "how long to wait in the queue; unset: the broker's default")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "follow the request until it is Active")
	cmd.Flags().DurationVar(&f.timeout, "timeout", 5*time.Minute, "how long --wait follows the request")
	cmd.Flags().StringVar(&f.quote, "quote", "", "in a member: name of the Quote to take over; the other flags must have the values of the Quote")
	return p.newAction(cmd, false, func(ctx context.Context, a *action, args []string) error { return a.reserveCapacity(ctx, args[0], f) })
}

func (a *action) reserveCapacity(ctx context.Context, name string, f *reserveFlags) error {
	amounts, err := f.parseAmounts()
	if err != nil {
		return err
	}
	if f.queueTimeout != 0 && !f.queue {
		return newUsageError("--queue-timeout has no effect without --queue")
	}
	c, err := a.connectSelected()
	if err != nil {
		return err
	}
	d, err := f.buildDemand(c, name, amounts)
	if err != nil {
		return err
	}
	err = a.change(c, "", func(to client.Client) (string, error) { return d.Ref().Short() + " created", to.Create(ctx, d.Object) })
	if err != nil || !f.wait || a.isDry() {
		return err
	}
	return a.awaitActive(ctx, c, d, f.timeout)
}

// awaitActive waits until a request is Active. It prints each new phase and message.
func (a *action) awaitActive(ctx context.Context, c *connection, d edits.Demand, timeout time.Duration) error {
	last, why := "", c.suggest("why "+d.Ref().Short()+" -n "+d.GetNamespace())+" says why"
	late := func() error { return fmt.Errorf("not done after %s: %s", timeout, why) }
	return c.await(ctx, timeout, d.Object, late, func() (bool, error) {
		phase, message, current := d.Status()
		if !current {
			return false, nil
		}
		if line := view.Clean(phase + ": " + message); line != last {
			fmt.Fprintln(a.ErrOut, line)
			last = line
		}
		if phase == string(brokerv1alpha1.ReservationFailed) {
			return false, errors.New("no cluster holds it: " + why)
		}
		return phase == string(brokerv1alpha1.ReservationActive), nil
	})
}

// buildDemand returns the object to create: a ResourceRequest in a member, a Reservation in the broker's
// cluster. In a cluster that is both, it is a Reservation if --requester is given.
func (f *reserveFlags) buildDemand(c *connection, name string, amounts corev1.ResourceList) (edits.Demand, error) {
	kind := "ResourceRequest"
	if f.requester != "" || !c.member {
		kind = "Reservation"
	}
	if kind == "Reservation" && f.requester == "" {
		return edits.Demand{}, newUsageError("%s is the broker's: name the cluster that uses the capacity with --requester, or a member with --context", c.describeRoles())
	}
	if kind == "ResourceRequest" && f.provider != "" || kind == "Reservation" && !c.broker {
		return edits.Demand{}, newUsageError("--requester and --provider belong to the broker's cluster, and %s is a member", c.describeRoles())
	}
	if kind == "Reservation" && f.quote != "" {
		return edits.Demand{}, newUsageError("--quote belongs to a member cluster: name one with --context")
	}
	d := edits.NewDemand(kind, client.ObjectKey{Namespace: c.namespace, Name: name})
	if f.duration != 0 {
		*d.DurationField() = &metav1.Duration{Duration: f.duration}
	}
	policy, timeout := brokerv1alpha1.QueuePolicy(""), (*metav1.Duration)(nil)
	if f.queue {
		policy = brokerv1alpha1.QueuePolicyQueue
	}
	if f.queueTimeout != 0 {
		timeout = &metav1.Duration{Duration: f.queueTimeout}
	}
	if r := d.Reservation; r != nil {
		r.Spec.RequesterID, r.Spec.TargetClusterID = f.requester, f.provider
		r.Spec.Priority, r.Spec.QueuePolicy, r.Spec.QueueTimeout = f.priority, policy, timeout
	} else {
		d.Request.Spec.Priority, d.Request.Spec.QueuePolicy, d.Request.Spec.QueueTimeout, d.Request.Spec.Quote = f.priority, policy, timeout, f.quote
	}
	d.SetAmounts(amounts)
	return d, nil
}

func newReleaseCommand(p *plugin) *cobra.Command {
	return p.newAction(&cobra.Command{
		Use:   "release NAME",
		Short: "Give the capacity of a request back and keep the object as a record.",
		Long: `Sets release of a ResourceRequest or Reservation: its node is drained, pods are evicted
with respect for disruption budgets, and the capacity is given back. The object stays
for reading; kubectl delete removes it as well. This cannot be taken back.`,
		Example:           `  kubectl broker release my-request --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listNames),
	}, true, func(ctx context.Context, a *action, args []string) error {
		return a.changeDemand(ctx, args[0], "Release %s in namespace %s? Pods on its node are evicted.", func(d edits.Demand) (string, error) {
			d.SetRelease()
			return "released", nil
		})
	})
}

func newExtendCommand(p *plugin) *cobra.Command {
	return p.newAction(&cobra.Command{
		Use:   "extend NAME DURATION",
		Short: "Hold the capacity of a request for longer.",
		Long: `Adds a time to the duration of a ResourceRequest or Reservation, so that its end moves
by as much.`,
		Example:           `  kubectl broker extend my-request 3h`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: p.completeFirst(listNames),
	}, false, func(ctx context.Context, a *action, args []string) error {
		longer, err := time.ParseDuration(args[1])
		if err != nil || longer <= 0 {
			return newUsageError("%q is no time to add: write it as 90m or 3h", args[1])
		}
		return a.changeDemand(ctx, args[0], "", func(d edits.Demand) (string, error) {
			total, err := d.Extend(longer)
			return fmt.Sprintf("is held for %s in all", total), err
		})
	})
}

func newResizeCommand(p *plugin) *cobra.Command {
	f := &amountFlags{}
	cmd := &cobra.Command{
		Use:   "resize NAME",
		Short: "Change the amounts of a request.",
		Long: `Changes the amounts that the flags name and keeps the others. More must have room at
the same provider; if the change is refused, what was granted stays in force. A
reduction evicts no pods.`,
		Example:           `  kubectl broker resize my-request --cpu 4`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listNames),
	}
	f.bindFlags(cmd)
	return p.newAction(cmd, false, func(ctx context.Context, a *action, args []string) error {
		amounts, err := f.parseAmounts()
		if err != nil {
			return err
		}
		if len(amounts) == 0 {
			return newUsageError("nothing to change: give --cpu, --memory or --resource")
		}
		return a.changeDemand(ctx, args[0], "", func(d edits.Demand) (string, error) {
			d.SetAmounts(amounts)
			return "asks for " + view.FormatAmounts(d.Amounts()), nil
		})
	})
}
