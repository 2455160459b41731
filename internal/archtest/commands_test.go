package archtest

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	agent "github.com/mehdiazizian/liqo-resource-broker/cmd/agent/app"
	broker "github.com/mehdiazizian/liqo-resource-broker/cmd/broker/app"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/commands"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// Every block of shell commands in a page is run by a test, or has a reason why none does.
func TestDocumentedBlocksAreRun(t *testing.T) {
	blocks, err := commands.Read(root)
	runtest.Check(t, err)
	for _, problem := range commands.Check(blocks) {
		t.Error(problem)
	}
	declared, sources := testSources(t)
	for _, name := range commands.Tests() {
		if file, ok := declared[name]; !ok || !strings.Contains(sources[file], "commands.Of(") {
			t.Errorf("e2e/commands/plan.go names %s: no such test runs commands.Of", name)
		}
	}
}

// waitedCondition matches the type of a condition in a documented command.
var waitedCondition = regexp.MustCompile(`--for=condition=([A-Za-z]+)|@\.type=="([A-Za-z]+)"`)

func TestDocumentedConditionsExist(t *testing.T) {
	known := append(constantsOf(t, findPackage(t, "api/agent/v1alpha1"), ""), constantsOf(t, findPackage(t, "api/broker/v1alpha1"), "")...)
	found := 0
	for _, page := range findPages(t) {
		content, err := os.ReadFile(page)
		runtest.Check(t, err)
		for _, match := range waitedCondition.FindAllStringSubmatch(string(content), -1) {
			found++
			if name := match[1] + match[2]; !slices.Contains(known, name) {
				t.Errorf("%s waits for condition %q, which no object has", page, name)
			}
		}
	}
	if found == 0 {
		t.Error("no page names a condition")
	}
}

// programPattern matches a call of broker or agent in a code span or a block, and targetPattern a target of make.
var (
	programPattern = regexp.MustCompile("(?m)(?:^|`|-- )((?:broker|agent) (?:check|configure|enrol|forget|uninstall)[^`\n#;|]*)")
	targetPattern  = regexp.MustCompile("(?m)(?:^|`)make ([a-z0-9-]+)")
)

// Commands in the text of a page are not run, but their names and flags exist.
func TestDocumentedFlagsAndTargetsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	runtest.Check(t, err)
	for _, page := range findPages(t) {
		content, err := os.ReadFile(page)
		runtest.Check(t, err)
		for _, match := range targetPattern.FindAllStringSubmatch(string(content), -1) {
			if !strings.Contains(string(makefile), "\n"+match[1]+": ") {
				t.Errorf("%s names target %q, which the Makefile does not have", page, match[1])
			}
		}
		for _, match := range programPattern.FindAllStringSubmatch(string(content), -1) {
			words := strings.Fields(match[1])
			if err := parseArguments(words[0], words[1:]); err != nil {
				t.Errorf("%s: %s: %v", page, match[1], err)
			}
		}
	}
}

// parseArguments parses the arguments of broker or agent.
func parseArguments(program string, args []string) error {
	command := map[string]func() *cobra.Command{"broker": broker.Command, "agent": agent.Command}[program]()
	found, rest, err := command.Find(args)
	if err == nil {
		err = found.ParseFlags(rest)
	}
	return err
}
