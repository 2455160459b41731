package app

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newStatusCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what needs attention, how much is free, and how many reservations there are.",
		Long: `Shows on one screen what needs attention, each with its cause and the command that
shows more; how the capacity is divided; and how many objects there are in each phase.
Without --namespace it covers all namespaces that you may read.

It exits with 1 if something needs attention, so that scripts can use it.`,
		Example: `  kubectl broker status
  kubectl broker status --context rome -n team-a
  kubectl broker status --at 2h --context broker  # as it was, from the journal
  kubectl broker status -o name                 # the objects that need attention
  kubectl broker status -o jsonpath='{.attention[*].reason}'`,
		Args: cobra.NoArgs,
	}
	output := newOutput(cmd, false)
	again, past := watchFlag(cmd), addPastFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := past.checkFlags(*again, nil); err != nil {
			return err
		}
		return p.repeatOnChange(cmd.Context(), *again, func(ctx context.Context) error { return p.showStatus(ctx, output, past) })
	}
	return cmd
}

func (p *plugin) showStatus(ctx context.Context, output *output, past *pastOptions) error {
	c, err := p.connectSelected()
	if err != nil {
		return err
	}
	snapshot, err := p.gatherAt(ctx, c, past, c.scopeNamespace(), summary)
	if err != nil {
		return err
	}
	status := view.NewStatus(snapshot)
	if output.isText() {
		err = view.WriteStatus(p.Out, status, snapshot, p.painter())
	} else {
		var affected []view.Ref
		for _, a := range status.Attention {
			for _, o := range a.Objects {
				affected = append(affected, o.Ref)
			}
		}
		err = output.writeView(p.Out, status, affected)
	}
	if err == nil && status.NeedsAttention() {
		err = errAttention
	}
	return err
}

// readSnapshot reads the cluster that the flags select: the namespace in the flags, or all
// namespaces.
func (p *plugin) readSnapshot(ctx context.Context) (*view.Snapshot, error) {
	c, err := p.connectSelected()
	if err != nil {
		return nil, err
	}
	return c.gatherObjects(ctx, c.scopeNamespace(), p.now(), whole)
}

// scopeNamespace returns the namespace that a flag names, or "" for all namespaces.
func (c *connection) scopeNamespace() string {
	if c.explicit {
		return c.namespace
	}
	return ""
}
