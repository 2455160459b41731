package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/specs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/whatif"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

const maxPlannedRequests = 10000

// planOptions are the flags that all plans have.
type planOptions struct {
	*plugin
	output  *output
	journal string
	// ahead is how far the plan looks ahead.
	ahead time.Duration
}

// planner is a command that makes a plan. The console sets its flags and calls makePlan.
type planner struct {
	*cobra.Command
	// makePlan returns the plan for the arguments and flags of the command.
	makePlan func(ctx context.Context, args []string) (*view.Plan, error)
}

// planners return the commands that make plans, by name.
var planners = map[string]func(*plugin) planner{"drain": newDrainPlanner, "add": newAddPlanner, "demand": newDemandPlanner}

func newPlanCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show what a change would cause, and change nothing.",
		Long: `Replays the broker's journal into a copy, carries out a change there with the broker's own
code, and simulates the time that follows. It shows which reservations move, wait or end
because of the change, and when.

It reads the ConfigMaps of the journal in the broker's cluster with your rights, so it
works while the broker is down, and writes nothing. It assumes that the agents that are
not silent report at once and that no other requests arrive. It exits with 1
if a reservation would lose its capacity or a request would not be served at once.`,
		Example: `  kubectl broker plan drain paris --notice 1h
  kubectl broker plan add turin --cpu 64 --memory 256Gi
  kubectl broker plan demand --cpu 4 --memory 8Gi --times 20`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return newUsageError("name what to plan: drain, add or demand")
		},
	}
	for _, create := range planners {
		cmd.AddCommand(create(p).Command) // cobra sorts them
	}
	return cmd
}

// newPlanner adds the flags that all plans have to a command, and has it print the plan that makePlan returns.
func (p *plugin) newPlanner(cmd *cobra.Command, ahead time.Duration, usage string, makePlan func(context.Context, *planOptions, []string) (*view.Plan, error)) planner {
	o := &planOptions{plugin: p, output: newOutput(cmd, false)}
	cmd.Flags().DurationVar(&o.ahead, "ahead", ahead, usage)
	addJournalFlag(cmd.Flags(), &o.journal)
	made := planner{cmd, func(ctx context.Context, args []string) (*view.Plan, error) { return makePlan(ctx, o, args) }}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		plan, err := made.makePlan(cmd.Context(), args)
		if err != nil {
			return err
		}
		return o.printPlan(plan)
	}
	return made
}

func newDrainPlanner(p *plugin) planner {
	var notice time.Duration
	cordon := false
	cmd := &cobra.Command{
		Use:   "drain CLUSTER-ID",
		Short: "Show what draining a provider would cause.",
		Long: `Shows which reservations would leave a cluster if it were drained now, where they would go
and when, and which would wait or end at the end of the notice.`,
		Example: `  kubectl broker plan drain paris --notice 1h
  kubectl broker plan drain paris --notice 1h --ahead 24h -o json`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listClusters),
	}
	cmd.Flags().DurationVar(&notice, "notice", 10*time.Minute, "how long reservations may stay if no other cluster has room")
	cmd.Flags().BoolVar(&cordon, "cordon-only", false, "let existing reservations stay")
	return p.newPlanner(cmd, 0, "how far to look ahead; unset: until the end of the notice", func(ctx context.Context, o *planOptions, args []string) (*view.Plan, error) {
		return o.planDrain(ctx, args[0], drains.Drain{Notice: notice, CordonOnly: cordon})
	})
}

func (o *planOptions) planDrain(ctx context.Context, id string, d drains.Drain) (*view.Plan, error) {
	if d.Notice < 0 {
		return nil, newUsageError("--notice must be at least 0s, not %s", d.Notice)
	}
	if o.ahead == 0 {
		o.ahead = d.Notice
	}
	change := fmt.Sprintf("if %s were drained with a notice of %s", id, d.Notice)
	if d.CordonOnly {
		change = fmt.Sprintf("if %s were cordoned", id)
	}
	return o.makePlan(ctx, change, func(w *broker.WhatIf) ([]asked, error) { return nil, w.Drain(id, d) })
}

func newAddPlanner(p *plugin) planner {
	f, region, cpuCost, memoryCost, currency := amountFlags{}, "", "", "", ""
	cmd := &cobra.Command{
		Use:   "add CLUSTER-ID",
		Short: "Show what a further cluster would cause.",
		Long: `Shows which waiting requests a new cluster would serve, and when. A broker that admits only
approved clusters is taken to have approved it.`,
		Example: `  kubectl broker plan add turin --cpu 64 --memory 256Gi
  kubectl broker plan add turin --cpu 64 --memory 256Gi --resource nvidia.com/gpu=4 --cpu-cost 0.02 --memory-cost 0.002 --currency EUR`,
		Args: cobra.ExactArgs(1),
	}
	f.bindFlags(cmd)
	fs := cmd.Flags()
	fs.StringVar(&region, "region", "", "region of the cluster")
	fs.StringVar(&cpuCost, "cpu-cost", "", "price of a core per hour")
	fs.StringVar(&memoryCost, "memory-cost", "", "price of a GiB of memory per hour")
	fs.StringVar(&currency, "currency", "", "currency of the prices, for example EUR")
	return p.newPlanner(cmd, 24*time.Hour, "how far to look ahead", func(ctx context.Context, o *planOptions, args []string) (*view.Plan, error) {
		amounts, err := f.parseAmounts()
		if err != nil {
			return nil, err
		}
		if len(amounts) == 0 {
			return nil, newUsageError("say what the cluster lends: give --cpu, --memory or --resource")
		}
		if (cpuCost+memoryCost == "") != (currency == "") {
			return nil, newUsageError("prices need --currency, and --currency needs --cpu-cost or --memory-cost")
		}
		obj := &brokerv1alpha1.ClusterAdvertisement{}
		obj.Spec.ClusterID = args[0]
		obj.Spec.Resources.Capacity, obj.Spec.Resources.Allocatable = amounts, amounts
		if region != "" {
			obj.Spec.Topology = &brokerv1alpha1.Topology{Region: region}
		}
		if currency != "" {
			obj.Spec.Cost = &brokerv1alpha1.Cost{CPUCost: cpuCost, MemoryCost: memoryCost, Currency: currency}
		}
		offer, err := specs.ReadOffer(obj)
		if err != nil {
			return nil, usageError{err}
		}
		change := fmt.Sprintf("if %s joined with %s", args[0], view.FormatAmounts(amounts))
		return o.makePlan(ctx, change, func(w *broker.WhatIf) ([]asked, error) { return nil, w.Add(offer) })
	})
}

type demandOptions struct {
	amountFlags
	times               int
	duration            time.Duration
	priority            int32
	requester, provider string
}

// anyRequester is the ID of the requester in a plan that names none. No real cluster is expected to have this ID.
const anyRequester = "planned-requester"

func newDemandPlanner(p *plugin) planner {
	f := &demandOptions{}
	cmd := &cobra.Command{
		Use:   "demand",
		Short: "Show what further requests would get, and when capacity runs out.",
		Long: `Makes a request once or several times in the copy, and shows who would serve it at what
price, with which request capacity runs out and why, and when the others could be served:
they wait in the queue meanwhile.`,
		Example: `  kubectl broker plan demand --cpu 4 --memory 8Gi --times 20
  kubectl broker plan demand --cpu 4 --memory 8Gi --requester rome --priority 10 --for 8h`,
		Args: cobra.NoArgs,
	}
	f.bindFlags(cmd)
	fs := cmd.Flags()
	fs.IntVar(&f.times, "times", 1, "how many such requests are made")
	fs.DurationVar(&f.duration, "for", 0, "how long each holds the capacity; unset: defaultTTL of the BrokerConfig")
	fs.Int32Var(&f.priority, "priority", 0, "priority among waiting requests; the highest comes first")
	fs.StringVar(&f.requester, "requester", "", "ID of the cluster that uses the capacity; unset: one that does not take part")
	fs.StringVar(&f.provider, "provider", "", "ID of the only cluster that may provide")
	return p.newPlanner(cmd, 24*time.Hour, "how far to look ahead", func(ctx context.Context, o *planOptions, _ []string) (*view.Plan, error) {
		amounts, err := f.parseAmounts()
		if err != nil {
			return nil, err
		}
		if len(amounts) == 0 {
			return nil, newUsageError("say what is requested: give --cpu, --memory or --resource")
		}
		if f.times < 1 || f.times > maxPlannedRequests {
			return nil, newUsageError("--times must be between 1 and %d, not %d", maxPlannedRequests, f.times)
		}
		change := fmt.Sprintf("if %s asked %d times for %s", cmp.Or(f.requester, "a new cluster"), f.times, view.FormatAmounts(amounts))
		return o.makePlan(ctx, change, func(w *broker.WhatIf) ([]asked, error) { return f.askRequests(w, amounts, o.ahead) })
	})
}

// asked is the outcome of a planned request: the name of its reservation, or why the broker would refuse it.
type asked struct{ reservation, refused string }

func (f *demandOptions) askRequests(w *broker.WhatIf, amounts corev1.ResourceList, ahead time.Duration) ([]asked, error) {
	var out []asked
	for i := range f.times {
		obj := &brokerv1alpha1.Reservation{}
		obj.Name = fmt.Sprintf("planned-%d", i+1)
		obj.UID = types.UID(obj.Name)
		obj.Spec.RequesterID, obj.Spec.TargetClusterID, obj.Spec.Priority = cmp.Or(f.requester, anyRequester), f.provider, f.priority
		obj.Spec.RequestedResources = brokerv1alpha1.RequestedResources(amounts)
		obj.Spec.QueuePolicy, obj.Spec.QueueTimeout = brokerv1alpha1.QueuePolicyQueue, &metav1.Duration{Duration: ahead + time.Minute}
		if f.duration != 0 {
			obj.Spec.Duration = &metav1.Duration{Duration: f.duration}
		}
		q, err := specs.ReadRequest(obj)
		if err != nil {
			return nil, usageError{err}
		}
		one := asked{}
		if one.reservation, err = w.Ask(&q); err != nil {
			one.refused = err.Error()
		}
		out = append(out, one)
	}
	return out, nil
}

// printPlan prints a plan. It returns errAttention if the plan does harm.
func (o *planOptions) printPlan(plan *view.Plan) error {
	if !o.output.isText() {
		if err := o.output.writeView(o.Out, plan, namesOf(plan.AffectedTable())); err != nil {
			return err
		}
	} else if err := view.WritePlan(o.Out, plan, o.painter()); err != nil {
		return err
	}
	if plan.Harms() {
		return errAttention
	}
	return nil
}

// planGC is the heap growth in percent after which the garbage is collected while a plan is made. Most of what a
// simulation allocates is garbage at once, and the default would collect it some twenty times.
const planGC = 400

// makePlan replays the journal into two copies of the broker's state, carries out a change in one of them, and
// compares the copies. Both are made and simulated at the same time.
func (o *planOptions) makePlan(ctx context.Context, change string, carryOut func(*broker.WhatIf) ([]asked, error)) (*view.Plan, error) {
	if o.ahead < 0 || o.ahead > requests.LongestDuration {
		return nil, newUsageError("--ahead must be between 0s and %s, not %s", requests.LongestDuration, o.ahead)
	}
	c, err := o.connectBroker()
	if err != nil {
		return nil, err
	}
	_, recovery, err := journal.Follow(ctx, c.store, o.journal, journal.Options{})
	if err != nil {
		return nil, c.explainJournal(o.journal, c.journalNamespace(), err)
	}
	silent, note := o.findSilent(ctx, c)
	defer debug.SetGCPercent(debug.SetGCPercent(planGC))
	var without, with *broker.WhatIf
	var at time.Time
	var requests []asked
	var group errgroup.Group
	now := o.now()
	group.Go(func() (err error) {
		if without, err = o.copyBook(recovery, now, silent); err != nil {
			return err
		}
		return without.Run()
	})
	group.Go(func() (err error) {
		if with, err = o.copyBook(recovery, now, silent); err != nil {
			return err
		}
		at = with.Now()
		if requests, err = carryOut(with); err != nil {
			return err
		}
		return with.Run()
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	plan := showPlan(without, with, requests, c.journalNamespace())
	plan.Change, plan.At, plan.Until, plan.Record = change, metav1.NewTime(at), metav1.NewTime(with.Now()), with.CopiedPosition()
	plan.Assumptions = append(plan.Assumptions, note)
	return plan, nil
}

func (o *planOptions) copyBook(recovery journal.Recovery, now time.Time, silent []string) (*broker.WhatIf, error) {
	book, err := replay.Read(recovery)
	if err != nil {
		return nil, err
	}
	config := settings.Default()
	if document := book.State.Configuration().Document; document != nil {
		if config, err = specs.ReadDocument(document); err != nil {
			return nil, err
		}
	}
	return broker.NewWhatIf(book, config, now, o.ahead, silent)
}

// findSilent returns the clusters that the broker last showed as silent, and a text about them for the plan. The
// journal records silence only of providers that hold reservations.
func (o *planOptions) findSilent(ctx context.Context, c *connection) (ids []string, note string) {
	var list brokerv1alpha1.ClusterAdvertisementList
	if err := c.List(ctx, &list); err != nil {
		return nil, "silent clusters are those of the journal, because the ClusterAdvertisements could not be read: " + view.Clean(err.Error())
	}
	for i := range list.Items {
		if phase := list.Items[i].Status.Phase; phase == string(term.Stale) || phase == string(term.Inactive) {
			ids = append(ids, list.Items[i].Spec.ClusterID)
		}
	}
	if len(ids) == 0 {
		return nil, "no cluster is silent"
	}
	slices.Sort(ids)
	return ids, fmt.Sprintf("silent clusters stay silent: %v", ids)
}

// showPlan compares the two copies of the broker's state, without and with the change, and returns the differences
// for printing. home is the namespace of the Reservations that the broker creates.
func showPlan(without, with *broker.WhatIf, requests []asked, home string) *view.Plan {
	plan := &view.Plan{
		Affected: []view.PlannedReservation{}, Without: showTotals(without.Totals()), With: showTotals(with.Totals()),
		Assumptions: []string{"agents do their part at once, and what is free on clusters' nodes stays as it is", "nobody asks for anything else, and nothing is released before its end"},
	}
	for _, a := range without.AffectedBy(with.Simulation) {
		r := view.PlannedReservation{
			Ref:         view.Ref{Kind: "Reservation", Namespace: home, Name: a.With.Reservation},
			Reservation: a.With.Reservation, Requester: a.With.Requester, Resources: a.With.Amounts.ToResourceList(),
			Without: showSteps(a.Without), With: showSteps(a.With),
		}
		if o := a.With.Object; o != nil {
			r.Namespace, r.Name = o.Namespace, o.Name
		}
		plan.Affected = append(plan.Affected, r)
	}
	for i, one := range requests {
		r := view.PlannedRequest{Number: i + 1, Refused: one.refused}
		if one.refused == "" {
			r.Steps = showSteps(with.CourseOf(one.reservation))
		}
		plan.Requests = append(plan.Requests, r)
	}
	plan.Complete()
	return plan
}

func showSteps(c *whatif.Course) []view.PlannedStep {
	var out []view.PlannedStep
	for i := range c.Steps {
		s := &c.Steps[i]
		step := view.PlannedStep{At: metav1.NewTime(s.At), Phase: view.PlannedReserved, Provider: s.Provider, Reason: string(s.Ended), Message: s.Why}
		switch {
		case s.Waits:
			step.Phase = view.PlannedQueued
		case s.Ended != "":
			step.Phase = view.PlannedEnded
		case s.Currency != "":
			step.PerHour, step.Currency = s.PerHour.String(), s.Currency
			for _, name := range s.NotPriced {
				step.NotPriced = append(step.NotPriced, string(name))
			}
		}
		out = append(out, step)
	}
	return out
}

func showTotals(t whatif.Totals) view.PlanTotals {
	out := view.PlanTotals{Served: t.Served, Waiting: t.Waiting, NotPriced: t.NotPriced, Lendable: t.Lendable, Free: t.Free}
	for _, currency := range slices.Sorted(maps.Keys(t.PerHour)) {
		out.PerHour = append(out.PerHour, view.PlannedPrice{PerHour: t.PerHour[currency].String(), Currency: currency})
	}
	return out
}
