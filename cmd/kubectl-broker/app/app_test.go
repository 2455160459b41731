package app

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/cli-runtime/pkg/genericiooptions"
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

// compareGolden compares a text with a file of testdata. With -update, it first writes the text
// to the file.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update writes it:\n%s", file, diff)
	}
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
