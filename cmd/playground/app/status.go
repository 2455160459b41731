package app

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
)

func statusCommand(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "List the clusters, and whether they answer.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := folder()
			if err != nil {
				return err
			}
			s, err := playground.Inspect(cmd.Context(), dir)
			if err != nil {
				return err
			}
			return printStatus(cmd.OutOrStdout(), s)
		},
	}
}

func printStatus(out io.Writer, s playground.Status) error {
	if s.PID == 0 {
		_, err := fmt.Fprintf(out, "No playground is running; kept clusters: %s.\n", joinNames(s.Clusters))
		return err
	}
	fmt.Fprintf(out, "Running as process %d.\n\n", s.PID)
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "CLUSTER\tAPI\tNODES READY\tURL")
	for _, c := range s.Clusters {
		answer := "ok"
		if c.Err != nil {
			answer = c.Err.Error()
		}
		fmt.Fprintf(table, "%s\t%s\t%d/%d\t%s\n", c.Name, answer, c.Ready, c.Nodes, c.URL)
	}
	return table.Flush()
}

func joinNames(clusters []playground.ClusterStatus) string {
	var names []string
	for _, c := range clusters {
		names = append(names, c.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}
