package app

import (
	"bytes"
	"flag"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var update = flag.Bool("update", false, "write the golden files")

// run executes the plugin as kubectl does, without a cluster unless the arguments name one.
func run(t *testing.T, args ...string) (code int, out, talk string) {
	t.Helper()
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	var stdout, stderr bytes.Buffer
	streams := genericiooptions.IOStreams{In: strings.NewReader(""), Out: &stdout, ErrOut: &stderr}
	code = Run(t.Context(), streams, append([]string{"/usr/local/bin/kubectl-broker"}, args...))
	return code, stdout.String(), stderr.String()
}

// checkRun executes the plugin. The test fails unless it ends with the exit code and prints the text want.
func checkRun(t *testing.T, code int, want string, args ...string) {
	t.Helper()
	if got, out, talk := run(t, args...); got != code || !strings.Contains(out+talk, want) {
		t.Errorf("exit code %d, want %d and %q:\n%s%s", got, code, want, out, talk)
	}
}

// compareGolden compares a text with a file of testdata.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	runtest.CompareGolden(t, *update, filepath.Join("testdata", name), got)
}

func TestExitCodesTellMistakesFromProblems(t *testing.T) {
	cases := map[string]struct {
		args []string
		want int
		says string
	}{
		"a command that works":      {[]string{"reason", "NoCandidate"}, exitDone, ""},
		"an unknown command":        {[]string{"nonsense"}, exitUsage, `unknown command "nonsense"`},
		"an unknown flag":           {[]string{"status", "--nonsense"}, exitUsage, "unknown flag: --nonsense"},
		"a missing argument":        {[]string{"why"}, exitUsage, "accepts 1 arg(s), received 0"},
		"an unknown format":         {[]string{"status", "-o", "wider"}, exitUsage, "unable to match a printer"},
		"a format that has no form": {[]string{"status", "-o", "wide"}, exitUsage, "unable to match a printer"},
		"an unknown word":           {[]string{"reason", "PodsRejectet"}, exitUsage, "similar: PodsRejected"},
		"an unknown type":           {[]string{"why", "deployment/web"}, exitUsage, "is no type"},
		"no cluster":                {[]string{"status"}, exitAttention, "does not answer"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, talk := run(t, tc.args...)
			if code != tc.want || !strings.Contains(talk, tc.says) {
				t.Errorf("exit code %d and %q, want %d and %q", code, talk, tc.want, tc.says)
			}
			if code != exitDone && out != "" {
				t.Errorf("an error wrote to standard output: %s", out)
			}
		})
	}
}

func TestReasonAsksNoCluster(t *testing.T) {
	cases := map[string][]string{
		"reason.txt":       {"reason", "Paused"},
		"reason.json":      {"reason", "Paused", "-o", "json"},
		"reason.yaml":      {"reason", "Paused", "-o", "yaml"},
		"reason-path.txt":  {"reason", "Paused", "-o", "jsonpath={.items[*].subject}"},
		"reason-close.txt": {"reason", "podsrej"},
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			code, out, talk := run(t, args...)
			if code != exitDone || talk != "" {
				t.Fatalf("exit code %d: %s", code, talk)
			}
			compareGolden(t, name, out)
		})
	}
}

func TestHelpUsesTheNameThatKubectlKnows(t *testing.T) {
	cases := map[string]string{
		"/usr/local/bin/kubectl-broker":          "kubectl broker",
		"kubectl-liqo_broker":                    "kubectl liqo-broker",
		`/home/me/.krew/bin/kubectl-liqo_broker`: "kubectl liqo-broker",
		"kubectl-broker.exe":                     "kubectl broker",
		"renamed":                                "kubectl broker",
	}
	for path, want := range cases {
		if got := displayName(path); got != want {
			t.Errorf("%s is shown as %q, want %q", path, got, want)
		}
	}
	_, out, _ := run(t, "why", "--help")
	if !strings.Contains(out, "kubectl broker why NAME") {
		t.Errorf("help of why does not show how to call it:\n%s", out)
	}
}

func TestWordsAreCompleted(t *testing.T) {
	_, out, _ := run(t, "__complete", "reason", "NoCand")
	if !strings.HasPrefix(out, "NoCandidate\n") {
		t.Errorf("NoCand is completed to %s", out)
	}
	_, out, _ = run(t, "completion", "kubectl")
	if !strings.Contains(out, `kubectl-broker __complete "$@"`) {
		t.Errorf("the completion of kubectl is %s", out)
	}
}
