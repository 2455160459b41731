package monitoringtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const root = "../.."

const runbooksURL = "https://github.com/mehdiazizian/liqo-resource-broker/blob/main/docs/runbooks.md#"

func TestEveryAlertHasARunbook(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs", "runbooks.md"))
	runtest.Check(t, err)
	var alerts, headings []string
	for _, heading := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(string(page), -1) {
		headings = append(headings, heading[1])
	}
	for _, r := range ReadRules(t) {
		if r.Alert == "" {
			continue
		}
		alerts = append(alerts, r.Alert)
		if want := runbooksURL + strings.ToLower(r.Alert); r.Annotations["runbook_url"] != want {
			t.Errorf("%s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || r.For == nil {
			t.Errorf("%s lacks summary, description or for", r.Alert)
		}
		if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
			t.Errorf("%s has severity %q", r.Alert, r.Labels["severity"])
		}
	}
	slices.Sort(alerts)
	slices.Sort(headings)
	if diff := cmp.Diff(alerts, headings); diff != "" {
		t.Errorf("docs/runbooks.md has other sections (-alerts +sections):\n%s", diff)
	}
	for section := range strings.SplitSeq(string(page), "\n## ") {
		name, text, _ := strings.Cut(section, "\n")
		for _, part := range []string{"**Means.**", "**Look.**", "**Do.**"} {
			if slices.Contains(alerts, name) && !strings.Contains(text, part) {
				t.Errorf("the section of %s lacks %s", name, part)
			}
		}
	}
}

// promtool returns the command promtool of Prometheus.
func promtool(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), FindProgram(t, "promtool"), args...)
	cmd.Dir = dir
	return cmd
}

func TestRulesAreValid(t *testing.T) {
	if out, err := promtool(t, CopyRules(t), "check", "rules", "rules-broker.yaml", "rules-agent.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// testdata/rules_test.yaml has the cases: each alert fires in one and is silent in others.
func TestAlertsFire(t *testing.T) {
	dir := CopyRules(t)
	var cases []byte
	args := []string{"test", "rules"}
	for _, name := range []string{"rules_test.yaml", "days_test.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		runtest.Check(t, err)
		cases, args = append(cases, text...), append(args, name)
	}
	for _, r := range ReadRules(t) {
		if r.Alert != "" && !strings.Contains(string(cases), `alertname="`+r.Alert+`"`) {
			t.Errorf("no case in which %s fires", r.Alert)
		}
	}
	if out, err := promtool(t, dir, args...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
