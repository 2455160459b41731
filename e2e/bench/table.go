package main

import (
	"fmt"
	"io"
)

// goal holds the required and the desired value of a figure. Zero means that there is no
// such value.
type goal struct {
	must, aim float64
	// more is true if larger values are better.
	more bool
	unit string
}

func atMost(must, aim float64, unit string) goal { return goal{must: must, aim: aim, unit: unit} }
func atLeast(must, aim float64) goal             { return goal{must: must, aim: aim, more: true} }
func only(unit string) goal                      { return goal{unit: unit} }

func (g goal) bound(v float64) string {
	if v == 0 {
		return "–"
	}
	sign := "≤"
	if g.more {
		sign = "≥"
	}
	return sign + " " + g.value(v)
}

func (g goal) value(v float64) string {
	text := fmt.Sprintf("%.3g", v)
	if v >= 1000 || v <= -1000 {
		text = fmt.Sprintf("%.0f", v)
	}
	if g.unit == "" {
		return text
	}
	return text + " " + g.unit
}

// verdict says whether the figure meets the requirement: "ok" or "short", or "–" if there is no
// requirement.
func (g goal) verdict(v float64) string {
	switch {
	case g.must == 0:
		return "–"
	case g.more && v >= g.must, !g.more && v <= g.must:
		return "ok"
	default:
		return "short"
	}
}

// table prints each row as soon as its figure is known.
type table struct{ out io.Writer }

func newTable(out io.Writer) *table {
	fmt.Fprintln(out, "| figure | value | must | aim | | made of |")
	fmt.Fprintln(out, "|---|---|---|---|---|---|")
	return &table{out}
}

func (t *table) row(name string, value float64, g goal, format string, args ...any) {
	fmt.Fprintf(t.out, "| %s | %s | %s | %s | %s | %s |\n",
		name, g.value(value), g.bound(g.must), g.bound(g.aim), g.verdict(value), fmt.Sprintf(format, args...))
}
