package app

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/edits"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// amountFlags are the flags with which users give amounts of resources.
type amountFlags struct {
	cpu, memory string
	resources   map[string]string
}

func (f *amountFlags) bindFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.cpu, "cpu", "", "cores, for example 2 or 500m")
	cmd.Flags().StringVar(&f.memory, "memory", "", "memory with a unit, for example 4Gi")
	cmd.Flags().StringToStringVar(&f.resources, "resource", nil, "other resources, for example nvidia.com/gpu=1")
}

// parseAmounts returns the amounts that the flags give.
func (f *amountFlags) parseAmounts() (corev1.ResourceList, error) {
	texts := map[string]string{}
	maps.Copy(texts, f.resources)
	for name, text := range map[string]string{"cpu": f.cpu, "memory": f.memory} {
		if text != "" {
			texts[name] = text
		}
	}
	list, err := view.ParseAmounts(texts)
	if err != nil {
		return nil, usageError{err}
	}
	return list, nil
}

// reserveFlags are the flags of the command reserve.
type reserveFlags struct {
	amountFlags
	duration, queueTimeout, timeout time.Duration
	priority                        int32
	queue, wait                     bool
	requester, provider, quote      string
}

// bindDemand adds the flags that describe the requested capacity.
func (f *reserveFlags) bindDemand(cmd *cobra.Command) {
	f.bindFlags(cmd)
	cmd.Flags().DurationVar(&f.duration, "for", 0, "how long to hold the capacity; unset: until it is released, or defaultTTL at the broker")
	cmd.Flags().Int32Var(&f.priority, "priority", 0, "priority among waiting requests; the highest comes first")
	cmd.Flags().BoolVar(&f.queue, "queue", false, "wait in the queue if no cluster has room")
	cmd.Flags().StringVar(&f.requester, "requester", "", "at the broker: ID of the cluster that uses the capacity")
	cmd.Flags().StringVar(&f.provider, "provider", "", "at the broker: ID of the only cluster that may provide")
}

func newReserveCommand(p *plugin) *cobra.Command {
	a, f := &action{plugin: p}, &reserveFlags{}
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
	a.bindFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return a.reserveCapacity(cmd.Context(), args[0], f) }
	return cmd
}

func (a *action) reserveCapacity(ctx context.Context, name string, f *reserveFlags) error {
	if err := a.checkFlags(); err != nil {
		return err
	}
	amounts, err := f.parseAmounts()
	if err != nil {
		return err
	}
	if f.queueTimeout != 0 && !f.queue {
		return newUsageError("--queue-timeout has no effect without --queue")
	}
	c, err := a.connectSelected(ctx)
	if err != nil {
		return err
	}
	d, err := f.buildDemand(c, name, amounts)
	if err != nil {
		return err
	}
	if err := a.clientOf(c).Create(ctx, d.Object); err != nil {
		return err
	}
	fmt.Fprintf(a.Out, "%s created%s\n", d.Ref().Short(), a.dryRunNote())
	if !f.wait || a.isDry() {
		return nil
	}
	return a.awaitDemand(ctx, c, d, f.timeout, func(phase string, current bool, _ []metav1.Condition) (bool, error) {
		switch {
		case current && phase == string(brokerv1alpha1.ReservationFailed):
			return false, fmt.Errorf("no cluster holds it: kubectl broker why %s -n %s says why", d.Ref().Short(), d.GetNamespace())
		case current && phase == string(brokerv1alpha1.ReservationActive):
			return true, nil
		}
		return false, nil
	})
}

// buildDemand returns the object to create: a ResourceRequest in a member, a Reservation in the broker's
// cluster. In a cluster that is both, it is a Reservation if --requester is given.
func (f *reserveFlags) buildDemand(c *connection, name string, amounts corev1.ResourceList) (demand, error) {
	kind := "ResourceRequest"
	if f.requester != "" || !c.member {
		kind = "Reservation"
	}
	if kind == "Reservation" && f.requester == "" {
		return demand{}, newUsageError("%s is the broker's: name the cluster that uses the capacity with --requester, or a member with --context", c.describeRoles())
	}
	if kind == "ResourceRequest" && f.provider != "" || kind == "Reservation" && !c.broker {
		return demand{}, newUsageError("--requester and --provider belong to the broker's cluster, and %s is a member", c.describeRoles())
	}
	if kind == "Reservation" && f.quote != "" {
		return demand{}, newUsageError("--quote belongs to a member cluster: name one with --context")
	}
	d := demand{edits.NewDemand(kind, client.ObjectKey{Namespace: c.namespace, Name: name})}
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
	d.setAmounts(amounts)
	return d, nil
}

// setAmounts sets the amounts of the resources in the list. Other resources of the request stay
// unchanged.
func (d demand) setAmounts(amounts corev1.ResourceList) {
	if r := d.Reservation; r != nil {
		if r.Spec.RequestedResources == nil {
			r.Spec.RequestedResources = brokerv1alpha1.RequestedResources{}
		}
		maps.Copy(r.Spec.RequestedResources, amounts)
		return
	}
	view.SetDemand(d.Request, amounts)
}

func newReleaseCommand(p *plugin) *cobra.Command {
	a := &action{plugin: p}
	cmd := &cobra.Command{
		Use:   "release NAME",
		Short: "Give the capacity of a request back and keep the object as a record.",
		Long: `Sets release of a ResourceRequest or Reservation: its node is drained, pods are evicted
with respect for disruption budgets, and the capacity is given back. The object stays
for reading; kubectl delete removes it as well. This cannot be taken back.`,
		Example:           `  kubectl broker release my-request --yes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeNames,
	}
	a.bindFlags(cmd, true)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.checkFlags(); err != nil {
			return err
		}
		c, d, err := p.findDemand(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := a.confirmChange(fmt.Sprintf("Release %s in namespace %s? Pods on its node are evicted.", d.Ref().Short(), d.GetNamespace())); err != nil {
			return err
		}
		if err := edits.Patch(cmd.Context(), a.clientOf(c), d.Object, func(client.Object) error { d.SetRelease(); return nil }); err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Out, "%s released%s\n", d.Ref().Short(), a.dryRunNote())
		return err
	}
	return cmd
}

func newExtendCommand(p *plugin) *cobra.Command {
	a := &action{plugin: p}
	cmd := &cobra.Command{
		Use:   "extend NAME DURATION",
		Short: "Hold the capacity of a request for longer.",
		Long: `Adds a time to the duration of a ResourceRequest or Reservation, so that its end moves
by as much.`,
		Example:           `  kubectl broker extend my-request 3h`,
		Args:              cobra.ExactArgs(2),
		ValidArgsFunction: p.completeNames,
	}
	a.bindFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.checkFlags(); err != nil {
			return err
		}
		longer, err := time.ParseDuration(args[1])
		if err != nil || longer <= 0 {
			return newUsageError("%q is no time to add: write it as 90m or 3h", args[1])
		}
		c, d, err := p.findDemand(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		var total time.Duration
		err = edits.Patch(cmd.Context(), a.clientOf(c), d.Object, func(client.Object) error {
			total, err = d.Extend(longer)
			return err
		})
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Out, "%s is held for %s in all%s\n", d.Ref().Short(), total, a.dryRunNote())
		return err
	}
	return cmd
}

func newResizeCommand(p *plugin) *cobra.Command {
	a, f := &action{plugin: p}, &amountFlags{}
	cmd := &cobra.Command{
		Use:   "resize NAME",
		Short: "Change the amounts of a request.",
		Long: `Changes the amounts that the flags name and keeps the others. More must have room at
the same provider; if the change is refused, what was granted stays in force. A
reduction evicts no pods.`,
		Example:           `  kubectl broker resize my-request --cpu 4`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeNames,
	}
	f.bindFlags(cmd)
	a.bindFlags(cmd, false)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := a.checkFlags(); err != nil {
			return err
		}
		amounts, err := f.parseAmounts()
		if err != nil {
			return err
		}
		if len(amounts) == 0 {
			return newUsageError("nothing to change: give --cpu, --memory or --resource")
		}
		c, d, err := p.findDemand(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if err := edits.Patch(cmd.Context(), a.clientOf(c), d.Object, func(client.Object) error { d.setAmounts(amounts); return nil }); err != nil {
			return err
		}
		_, err = fmt.Fprintf(p.Out, "%s asks for %s%s\n", d.Ref().Short(), strings.TrimSpace(view.FormatAmounts(d.requestedAmounts())), a.dryRunNote())
		return err
	}
	return cmd
}

// requestedAmounts returns the amounts of resources in the spec of the request.
func (d demand) requestedAmounts() corev1.ResourceList {
	if d.Reservation != nil {
		return corev1.ResourceList(d.Reservation.Spec.RequestedResources)
	}
	return view.DemandOf(d.Request)
}
