package app

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/mehdiazizian/liqo-resource-broker/internal/view"
)

func newQueueCommand(p *plugin) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List the requests that wait for capacity, and what blocks them.",
		Long: `Lists the requests that wait for capacity in the order in which they are served: how
long they have waited, when they fail, and the most frequent reason why clusters
cannot hold them. -o wide adds the figures of a cluster.`,
		Example: `  kubectl broker queue
  kubectl broker queue -n team-a -o wide`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(newPauseCommand(p, true, "pause", "Grant nothing to waiting requests until the queue is resumed.",
		`Sets spec.queue.paused of the BrokerConfig. Waiting requests keep their places, even
beyond their timeouts, and new requests do not pass them. Reservations that have to leave
their provider still move.`),
		newPauseCommand(p, false, "resume", "Serve the queue again.",
			`Unsets spec.queue.paused of the BrokerConfig. Waiting requests are served in their order
before those whose timeout has passed fail.`))
	output := newOutput(cmd, true)
	again := watchFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return p.repeatOnChange(cmd.Context(), *again, func(ctx context.Context) error {
			snapshot, err := p.readSnapshot(ctx)
			if err != nil {
				return err
			}
			queue := view.NewQueue(snapshot)
			if queue.Paused {
				fmt.Fprintf(p.ErrOut, "the queue is paused: %s serves it again\n", (&connection{flags: snapshot.Flags}).suggest("queue resume"))
			}
			return p.writeRows(output, queue, queue.Table(snapshot), queue.Gaps, "nothing waits")
		})
	}
	return cmd
}

// writeRows prints a table for people, or the view behind the table for programs. If the table has no rows, people get
// the text empty on stderr instead. What could not be read is reported on stderr.
func (p *plugin) writeRows(o *output, viewed any, table view.Table, gaps []view.Gap, empty string) error {
	for _, line := range view.DescribeGaps(gaps) {
		fmt.Fprintln(p.ErrOut, "not shown:", line)
	}
	if !o.isText() {
		return o.writeView(p.Out, viewed, namesOf(table))
	}
	if len(table.Rows) == 0 {
		fmt.Fprintln(p.ErrOut, empty)
		return nil
	}
	return printTable(p.Out, table, o.chosenFormat() == formatWide)
}

// namesOf returns the objects that the rows of a table show, without duplicates. Some rows show no object.
func namesOf(table view.Table) (names []view.Ref) {
	seen := map[view.Ref]bool{}
	for _, row := range table.Rows {
		if !seen[row.Ref] && row.Ref != (view.Ref{}) {
			names = append(names, row.Ref)
		}
		seen[row.Ref] = true
	}
	return names
}

// printTable prints a table in the format of kubectl get, without control characters. It prints the columns that are
// marked as wide only if wide is true.
func printTable(out io.Writer, table view.Table, wide bool) error {
	rows := &metav1.Table{}
	for _, column := range table.Columns {
		definition := metav1.TableColumnDefinition{Name: strings.ToUpper(column.Name), Type: "string"}
		if column.Wide {
			definition.Priority = 1
		}
		rows.ColumnDefinitions = append(rows.ColumnDefinitions, definition)
	}
	for _, row := range table.Rows {
		cells := make([]any, len(row.Cells))
		for i, cell := range row.Cells {
			cells[i] = view.Clean(cell)
		}
		rows.Rows = append(rows.Rows, metav1.TableRow{Cells: cells})
	}
	return printers.NewTablePrinter(printers.PrintOptions{Wide: wide}).PrintObj(rows, out)
}
