package e2e

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// Narrator prints the course of a story for people.
type Narrator struct {
	out   io.Writer
	began time.Time
	step  int
}

// NewNarrator returns a Narrator that prints to out. The printed times begin at this
// call.
func NewNarrator(out io.Writer) *Narrator { return &Narrator{out: out, began: time.Now()} }

// Chapter prints the heading of the next part of the story.
func (n *Narrator) Chapter(format string, args ...any) {
	n.step++
	fmt.Fprintf(n.out, "\n%d. %s\n", n.step, fmt.Sprintf(format, args...))
}

// Say prints one line, with the time since the beginning.
func (n *Narrator) Say(format string, args ...any) {
	fmt.Fprintf(n.out, "   %6.2fs  %s\n", time.Since(n.began).Seconds(), fmt.Sprintf(format, args...))
}

// Table prints rows in columns. The first row contains the headings.
func (n *Narrator) Table(rows ...[]string) {
	w := tabwriter.NewWriter(n.out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprint(w, "            ")
		for i, cell := range row {
			if i > 0 {
				fmt.Fprint(w, "\t")
			}
			fmt.Fprint(w, cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}
