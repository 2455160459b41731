package app

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newWhyCommand(p *plugin) *cobra.Command {
	var also []string
	cmd := &cobra.Command{
		Use:     "why NAME",
		Aliases: []string{"explain"},
		Short:   "Say why a request, reservation, node, pod or cluster is as it is, and what would help.",
		Long: `Finds what NAME is and says in at most 15 lines what is wrong, what to do, and why no
cluster was chosen. -o wide tells the whole story: the conditions of all objects that
belong to it, every candidate and attempt, and the events.

NAME is the name of a ResourceRequest, Reservation, virtual node, pod or cluster, the
name of a reservation (res-...) or placement (res-...-1), or TYPE/NAME. --also names
contexts of the other clusters that take part, to see their side of the story as well.`,
		Example: `  kubectl broker why my-request
  kubectl broker why pod/my-pod -n team-a
  kubectl broker why res-k3v9x2m7qa --context rome --also broker,paris
  kubectl broker why my-request -o jsonpath='{.next[*].text}'`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: p.completeFirst(listNames),
	}
	output := newOutput(cmd, true)
	cmd.Flags().StringSliceVar(&also, "also", nil, "contexts of other clusters whose side of the story is shown as well")
	past := addPastFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := past.checkFlags(false, also); err != nil {
			return err
		}
		story, snapshot, err := p.tellStory(cmd.Context(), args[0], also, past)
		if err != nil {
			return err
		}
		if output.chosenFormat() == formatWide {
			return view.WriteWholeStory(p.Out, story, snapshot, p.painter())
		}
		if output.isText() {
			return view.WriteStory(p.Out, story, snapshot, p.painter())
		}
		return output.writeView(p.Out, story, []view.Ref{story.Subject})
	}
	return cmd
}

// tellStory finds the object with the given name in the cluster that the flags select. It reads everything that
// belongs to that object, from this cluster and from the clusters whose contexts are in also. It returns the story
// and the snapshot of the first cluster.
func (p *plugin) tellStory(ctx context.Context, name string, also []string, past *pastOptions) (*view.Story, *view.Snapshot, error) {
	query, known := view.ParseQuery(name, "")
	if !known {
		return nil, nil, newUsageError("%q is no type: use rreq/, rsv/, node/, pod/ or cadv/ and the name, or the name alone", name)
	}
	first, err := p.connectSelected()
	if err != nil {
		return nil, nil, err
	}
	query.Namespace = first.namespace
	connections := []*connection{first}
	for _, context := range also {
		other, err := p.connectTo(context)
		if err != nil {
			return nil, nil, err
		}
		connections = append(connections, other)
	}
	snapshots := make([]*view.Snapshot, len(connections))
	for i, c := range connections {
		if snapshots[i], err = p.gatherAt(ctx, c, past, "", whole); err != nil {
			return nil, nil, err
		}
	}
	if past.at == "" && first.member && (query.Kind == "" || query.Kind == "Pod") {
		first.readPod(ctx, snapshots[0], query.Namespace, query.Name)
	}
	subject, err := pickSubject(first, snapshots[0], query)
	if err != nil {
		return nil, nil, err
	}
	related := view.Related(snapshots, subject)
	for i := range related {
		if past.at != "" {
			break // the journal does not record Kubernetes Events
		}
		connections[i].readEvents(ctx, snapshots[i], related[i])
	}
	return view.NewStory(snapshots, subject, related), snapshots[0], nil
}

// pickSubject returns the object that the query names. It returns an error if there is none or more than one.
func pickSubject(c *connection, s *view.Snapshot, q view.Query) (view.Ref, error) {
	found := s.Find(q)
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return view.Ref{}, fmt.Errorf("nothing is called %q in %s, namespace %s%s", q.Name, c.describeRoles(), q.Namespace, describeGaps(s.Gaps))
	}
	var names []string
	for _, r := range found {
		name := r.Short()
		if r.Namespace != "" {
			name += " -n " + r.Namespace
		}
		names = append(names, name)
	}
	slices.Sort(names)
	return view.Ref{}, newUsageError("%q is several objects, name one: %s", q.Name, strings.Join(names, ", "))
}

// describeGaps returns the end of an error message, which lists what could not be searched.
func describeGaps(gaps []view.Gap) string {
	if len(gaps) == 0 {
		return ""
	}
	return "; not searched: " + strings.Join(view.DescribeGaps(gaps), "; ")
}
