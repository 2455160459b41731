package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/accounts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/costs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replay"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

// formatFocus is the value of --output for a FOCUS dataset.
const formatFocus = "focus-csv"

type costOptions struct {
	output                               *output
	journal, by, month, from, to, period string
}

// memberCosts are the values of --by in a member. The first one is the default.
var memberCosts = []view.CostBy{view.CostByRequest, view.CostByNamespace, view.CostByProvider}

func newCostCommand(p *plugin) *cobra.Command {
	o := &costOptions{}
	cmd := &cobra.Command{
		Use:   "cost",
		Short: "Add up what was reserved, used and paid.",
		Long: `In the broker's cluster it reads the accounts from the ConfigMaps of the journal, also
while the broker is down: by requester, tenant, provider or resource, for the present
month, for --month, or from --from to --to. With --period each period has its own rows.
Both times are full hours in UTC, as 2026-11-20 or 2026-11-20T14:00Z. Hours are kept for
a shorter time than days, and days than months.

In a member it adds up status.cost of its ResourceRequests until now, by request,
namespace or provider.

-o focus-csv writes the ended periods as a FOCUS 1.2 dataset (https://focus.finops.org).`,
		Example: `  kubectl broker cost --by tenant
  kubectl broker cost --by provider --from 2026-11-01 --period day
  kubectl broker cost --month 2026-10 -o focus-csv > october.csv`,
		Args: cobra.NoArgs,
	}
	o.output = newOutput(cmd, true, formatFocus)
	fs := cmd.Flags()
	fs.StringVar(&o.by, "by", "", "what the rows are about: requester (default), tenant, provider or resource; in a member request (default), namespace or provider")
	fs.StringVar(&o.month, "month", "", "a month, as 2026-11, instead of --from and --to")
	fs.StringVar(&o.from, "from", "", "start of the time range; the start of the present month if unset")
	fs.StringVar(&o.to, "to", "", "end of the time range; the newest record if unset")
	fs.StringVar(&o.period, "period", "", "hour, day or month: separate rows for each")
	fs.StringVar(&o.journal, "journal", defaultJournal, "name of the journal")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return p.showCost(cmd.Context(), o) }
	return cmd
}

func (p *plugin) showCost(ctx context.Context, o *costOptions) error {
	span, err := o.parseSpan()
	if err != nil {
		return err
	}
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	if !c.broker {
		return p.showMemberCost(ctx, c, o)
	}
	by, err := o.groupIn(c, costs.Groups)
	if err != nil {
		return err
	}
	read, err := c.openAccounts(ctx, o.journal)
	if err != nil {
		return err
	}
	if o.output.chosenFormat() == formatFocus {
		return p.writeFocus(ctx, read, span)
	}
	cost, err := costs.Read(ctx, read, span, by)
	if err != nil {
		return explainSpan(err)
	}
	for _, note := range cost.Notes() {
		fmt.Fprintln(p.ErrOut, note)
	}
	return p.writeRows(o.output, cost, cost.Table(), nil, "nothing was reserved in this time")
}

func (o *costOptions) parseSpan() (span costs.Span, err error) {
	if span.Period, err = costs.ParsePeriod(o.period); err != nil {
		return span, newUsageError("--period %w", err)
	}
	if o.month != "" {
		if o.from+o.to != "" {
			return span, newUsageError("--month %s excludes --from and --to", o.month)
		}
		if span.From, err = time.Parse("2006-01", o.month); err != nil {
			return span, newUsageError("--month %q: write a year and a month, as 2026-11", o.month)
		}
		span.To = accounts.Month.After(span.From)
		return span, nil
	}
	if span.From, err = costs.ParseHour(o.from); err != nil {
		return span, newUsageError("--from %w", err)
	}
	if span.To, err = costs.ParseHour(o.to); err != nil {
		return span, newUsageError("--to %w", err)
	}
	for flag, at := range map[string]time.Time{"--from": span.From, "--to": span.To} {
		if !span.IsBegin(at) {
			return span, newUsageError("%s %s is not the begin of a %s, as --period %s needs", flag, at.Format(time.RFC3339), o.period, o.period)
		}
	}
	return span, nil
}

// groupIn returns the value of --by, which must be among the allowed ones. It returns the first of them if --by is not
// set.
func (o *costOptions) groupIn(c *connection, allowed []view.CostBy) (view.CostBy, error) {
	by, err := costs.ParseGroup(o.by, allowed, c.describeRoles())
	if err != nil {
		return "", newUsageError("--by %w", err)
	}
	return by, nil
}

// openAccounts replays the journal of a broker's cluster.
func (c *connection) openAccounts(ctx context.Context, name string) (*replay.Accounts, error) {
	read, err := replay.OpenAccounts(ctx, c.store, name)
	if isDenied(err) {
		return nil, fmt.Errorf("the accounts are in ConfigMaps of namespace %q, which you may not read: ask for get and list on them: %w", c.journalNamespace(), err)
	}
	return read, c.explainJournal(name, c.journalNamespace(), err)
}

// explainSpan names the flags in an error about an empty span. It returns other errors unchanged.
func explainSpan(err error) error {
	if empty, ok := errors.AsType[*costs.EmptySpanError](err); ok {
		return newUsageError("--from %s is not before --to %s", empty.Span.From.Format(time.RFC3339), empty.Span.To.Format(time.RFC3339))
	}
	return err
}

func (p *plugin) writeFocus(ctx context.Context, read *replay.Accounts, span costs.Span) error {
	focus, err := costs.ReadFocus(ctx, read, span)
	if err != nil {
		return explainSpan(err)
	}
	if focus.NotPriced > 0 {
		fmt.Fprintf(p.ErrOut, "not written: %d rows of resources without a price\n", focus.NotPriced)
	}
	fmt.Fprintf(p.ErrOut, "from %s to %s (%s)\n", focus.From.Format(time.RFC3339), focus.To.Format(time.RFC3339), duration.HumanDuration(focus.To.Sub(focus.From)))
	return focus.Write(p.Out)
}

func (p *plugin) showMemberCost(ctx context.Context, c *connection, o *costOptions) error {
	by, err := o.groupIn(c, memberCosts)
	if err != nil {
		return err
	}
	if o.month+o.from+o.to+o.period != "" || o.output.chosenFormat() == formatFocus {
		return newUsageError("%s is a member's and has no accounts: --month, --from, --to, --period and -o %s need the broker's --context", c.describeRoles(), formatFocus)
	}
	snapshot, err := p.readSnapshot(ctx)
	if err != nil {
		return err
	}
	cost := view.NewMemberCost(snapshot, by)
	return p.writeRows(o.output, cost, cost.Table(), cost.Gaps, "no request has cost anything")
}
