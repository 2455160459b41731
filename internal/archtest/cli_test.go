package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	agent "github.com/mehdiazizian/liqo-resource-broker/cmd/agent/app"
	broker "github.com/mehdiazizian/liqo-resource-broker/cmd/broker/app"
)

var update = flag.Bool("update", false, "write the tables of docs/cli.md")

// The tables of flags in docs/cli.md are between markers. The test generates each table and
// compares it with the page.
func TestFlagsAreDocumented(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "") // it is the default of a flag
	name := filepath.Join(root, "docs", "cli.md")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	for _, binary := range []*cobra.Command{broker.Command(), agent.Command()} {
		for _, cmd := range append([]*cobra.Command{binary}, binary.Commands()...) {
			if page, err = replaceTable(page, cmd); err != nil {
				t.Fatal(err)
			}
		}
	}
	if *update {
		if err := os.WriteFile(name, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(page, string(content)); diff != "" {
		t.Errorf("docs/cli.md is out of date: run make generate (-flags +page):\n%s", diff)
	}
}

func replaceTable(page string, cmd *cobra.Command) (string, error) {
	begin := "<!-- flags of " + cmd.CommandPath() + " -->\n"
	page, ok := replaceBetween(page, begin, flagTable(cmd))
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

// flagTable lists the flags of a command. It leaves out flags that the command shares with its
// parent, and the flags of controller-runtime's log.
func flagTable(cmd *cobra.Command) string {
	var table strings.Builder
	table.WriteString("| flag | default | |\n|---|---|---|\n")
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "zap-") {
			return // defined by controller-runtime
		}
		if cmd.HasParent() {
			if above := cmd.Parent().Flags().Lookup(f.Name); above != nil && above.Usage == f.Usage {
				return
			}
		}
		value := ""
		if f.DefValue != "" && f.DefValue != "[]" {
			value = "`" + f.DefValue + "`"
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s |\n", f.Name, value, strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	return table.String()
}
