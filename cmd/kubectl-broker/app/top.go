package app

import (
	"context"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newTopCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top [clusters|requesters|placements]",
		Short: "Compare what is reserved with what is used.",
		Long: `Shows who holds how much. In the broker's cluster it shows what each cluster offers,
uses itself and has lent (clusters), or what each requester holds (requesters). With
-o wide it also shows what each cluster's own pods without a node request. In a
member cluster it compares each placement with what its pods request (placements), for
what this cluster consumes and for what it provides.`,
		Example: `  kubectl broker top
  kubectl broker top requesters --context broker
  kubectl broker top -o json`,
		Args:      cobra.MatchAll(cobra.MaximumNArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{view.ByClusters, view.ByRequesters, view.ByPlacements},
	}
	output := newOutput(cmd, true)
	again, past := watchFlag(cmd), addPastFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := past.checkFlags(*again, nil); err != nil {
			return err
		}
		return p.repeatOnChange(cmd.Context(), *again, func(ctx context.Context) error {
			c, err := p.connectSelected()
			if err != nil {
				return err
			}
			top, err := p.measureUse(ctx, c, strings.Join(args, ""), past)
			if err != nil {
				return err
			}
			return p.writeRows(output, top, top.Table(), top.Gaps, "nothing is reserved")
		})
	}
	return cmd
}

// measureUse reads the objects and returns the view for one grouping. If by is "", the grouping is
// ByClusters in a broker's cluster and ByPlacements in a member.
func (p *plugin) measureUse(ctx context.Context, c *connection, by string, past *pastOptions) (*view.Top, error) {
	if by == "" {
		if by = view.ByPlacements; c.broker {
			by = view.ByClusters
		}
	}
	if by == view.ByPlacements != c.member && !(c.broker && c.member) {
		return nil, newUsageError("%s is not the cluster for %q: a broker's cluster has clusters and requesters, a member has placements", c.describeRoles(), by)
	}
	snapshot, err := p.gatherAt(ctx, c, past, c.scopeNamespace(), whole)
	if err != nil {
		return nil, err
	}
	switch by {
	case view.ByClusters:
		return view.NewTopClusters(snapshot), nil
	case view.ByRequesters:
		return view.NewTopRequesters(snapshot), nil
	}
	return view.NewTopPlacements(snapshot, c.readUsage(ctx, snapshot)), nil
}

// readUsage returns how much the pods of each placement request. It covers the placements that this
// member consumes and those that it provides. If it may not or cannot read the pods, it adds a gap
// to s and returns what it has read until then, so that the usage of the others counts as unknown and not as zero.
func (c *connection) readUsage(ctx context.Context, s *view.Snapshot) view.Usage {
	usage := view.Usage{Consumed: map[string]corev1.ResourceList{}, Provided: map[string]corev1.ResourceList{}}
	for _, node := range s.Member.Nodes {
		pods := &corev1.PodList{}
		if err := c.List(ctx, pods, client.MatchingFields{"spec.nodeName": node.Name}); err != nil {
			s.Gaps = append(s.Gaps, gapOf("pods", err))
			return usage
		}
		sum := quantity.Amounts{}
		for j := range pods.Items {
			if !capacity.Finished(&pods.Items[j]) {
				addRequests(sum, &pods.Items[j])
			}
		}
		usage.Consumed[node.Name] = sum.ToResourceList()
	}
	if len(s.Member.ProviderInstructions) == 0 {
		return usage
	}
	pods := &corev1.PodList{}
	if err := c.List(ctx, pods, client.HasLabels{originLabel}); err != nil {
		s.Gaps = append(s.Gaps, gapOf("pods", err))
		return usage
	}
	sums := map[string]quantity.Amounts{}
	for _, p := range s.Member.ProviderInstructions {
		sums[brokerv1alpha1.PlacementName(p.Spec.ReservationName, p.Spec.Placement)] = quantity.Amounts{}
	}
	for i := range pods.Items {
		if use, ok := capacity.UseOf(&pods.Items[i]); ok && !use.Over && sums[use.Placement] != nil {
			sums[use.Placement].AddInPlace(use.Request)
		}
	}
	for name, sum := range sums {
		usage.Provided[name] = sum.ToResourceList()
	}
	return usage
}

// originLabel is the key of a label that Liqo sets on every pod that it runs here for another
// cluster.
const originLabel = "offloading.liqo.io/origin"

func addRequests(sum quantity.Amounts, pod *corev1.Pod) {
	for name, amount := range resource.PodRequests(pod, resource.PodResourcesOptions{}) {
		if base, err := quantity.FromResource(name, amount); err == nil {
			sum.AddInPlace(quantity.Amounts{name: base})
		}
	}
}
