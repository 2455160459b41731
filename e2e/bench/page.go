package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// tableBegins and tableEnds are the lines before and after the table in a page.
const (
	tableBegins = "<!-- table -->\n"
	tableEnds   = "<!-- end of table -->\n"
)

// writeTable replaces the text between tableBegins and tableEnds in a page by the table.
func writeTable(page, table string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := strings.Cut(string(text), tableBegins)
	_, after, ends := strings.Cut(rest, tableEnds)
	if !begins || !ends {
		return fmt.Errorf("%s has no place for the table: it wants the lines %q and %q", page, tableBegins, tableEnds)
	}
	return os.WriteFile(page, []byte(before+tableBegins+"\n"+table+"\n"+tableEnds+after), 0o644)
}

// describeCommit returns the commit that is measured, or "unknown".
func describeCommit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

// processorModel returns the model of the first CPU core, or "unknown".
func processorModel() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, model, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(model)
		}
	}
	return "unknown"
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}
