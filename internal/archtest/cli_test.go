package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	agent "github.com/mehdiazizian/liqo-resource-broker/cmd/agent/app"
	broker "github.com/mehdiazizian/liqo-resource-broker/cmd/broker/app"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var update = flag.Bool("update", false, "write the tables of docs/cli.md")

// The tables of flags in docs/cli.md are between markers. The test generates each table and
// compares it with the page.
func TestFlagsAreDocumented(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "") // it is the default of a flag
	name := filepath.Join(root, "docs", "cli.md")
	content, err := os.ReadFile(name)
	runtest.Check(t, err)
	page := string(content)
	binaries := []*cobra.Command{broker.Command(), agent.Command()}
	inBoth := func(f *pflag.Flag) bool {
		return !slices.ContainsFunc(binaries, func(binary *cobra.Command) bool { return !hasFlag(binary, f) })
	}
	page, err = replaceTable(page, "broker and agent", flagTable(binaries[0], inBoth))
	runtest.Check(t, err)
	for _, binary := range binaries {
		for _, cmd := range append([]*cobra.Command{binary}, binary.Commands()...) {
			own := func(f *pflag.Flag) bool { return !hasFlag(binary, f) }
			if cmd == binary {
				own = func(f *pflag.Flag) bool { return !inBoth(f) }
			}
			page, err = replaceTable(page, cmd.CommandPath(), flagTable(cmd, own))
			runtest.Check(t, err)
		}
	}
	if *update {
		runtest.Check(t, os.WriteFile(name, []byte(page), 0o644))
		return
	}
	if diff := cmp.Diff(page, string(content)); diff != "" {
		t.Errorf("docs/cli.md is out of date: run make generate (-flags +page):\n%s", diff)
	}
}

// hasFlag reports whether a command has a flag with the same meaning.
func hasFlag(cmd *cobra.Command, f *pflag.Flag) bool {
	found := cmd.Flags().Lookup(f.Name)
	return found != nil && found.Usage == f.Usage
}

func replaceTable(page, owner, table string) (string, error) {
	begin := "<!-- flags of " + owner + " -->\n"
	page, ok := replaceBetween(page, begin, table)
	if !ok {
		return "", fmt.Errorf("docs/cli.md has no mark %q, or no %q after it", begin, tableEnd)
	}
	return page, nil
}

// tableEnd ends every generated table.
const tableEnd = "<!-- end -->"

// replaceBetween replaces the text between a marker and the next tableEnd. It returns false and
// the unchanged page if it does not find both.
func replaceBetween(page, begin, content string) (string, bool) {
	before, rest, found := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		return page, false
	}
	return before + begin + content + tableEnd + after, true
}

// flagTable lists the flags of a command that the filter accepts, except the flags of controller-runtime's log.
func flagTable(cmd *cobra.Command, accepts func(*pflag.Flag) bool) string {
	var table strings.Builder
	table.WriteString("| flag | default | |\n|---|---|---|\n")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "zap-") || !accepts(f) {
			return
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", f.Name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return table.String()
}
