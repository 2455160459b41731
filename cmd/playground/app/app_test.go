package app

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := Command()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err := cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func keptState(t *testing.T, cluster string) (dir, file string) {
	t.Helper()
	dir = t.TempDir()
	file = playground.KubeconfigOf(dir, cluster)
	runtest.Check(t, os.MkdirAll(filepath.Dir(file), 0o755))
	runtest.Check(t, os.WriteFile(file, []byte("kind: Config\n"), 0o600))
	return dir, file
}

func TestKubeconfig(t *testing.T) {
	dir, file := keptState(t, "rome")
	tests := map[string]struct {
		args []string
		want string
		fail bool
	}{
		"prints the file":             {args: []string{"rome"}, want: file + "\n"},
		"prints the content":          {args: []string{"rome", "--raw"}, want: "kind: Config\n"},
		"tells of an unknown cluster": {args: []string{"oslo"}, fail: true},
		"refuses a path as a name":    {args: []string{"../lock"}, fail: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := run(t, append([]string{"kubeconfig", "--dir", dir}, test.args...)...)
			if failed := err != nil; failed != test.fail {
				t.Fatalf("got error %v, want one: %v", err, test.fail)
			}
			if test.fail {
				if !strings.Contains(got, "playground up") {
					t.Errorf("the error names no remedy: %s", got)
				}
				return
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("printed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStatusWhenNothingRuns(t *testing.T) {
	dir, _ := keptState(t, "rome")
	steps := []struct {
		args []string
		want string
	}{
		{[]string{"status"}, "No playground is running; kept clusters: rome.\n"},
		{[]string{"down"}, "No playground was running.\n"},
		{[]string{"down", "--purge"}, "No playground was running.\nRemoved " + dir + ".\n"},
		{[]string{"status"}, "No playground is running; kept clusters: none.\n"},
	}
	for _, step := range steps {
		got, err := run(t, append(step.args, "--dir", dir)...)
		if err != nil {
			t.Errorf("%q: %v", step.args, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%q printed (-want +got):\n%s", step.args, diff)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the purged folder: %v", err)
	}
}

func TestStatusOfARunningPlayground(t *testing.T) {
	var out bytes.Buffer
	err := printStatus(&out, playground.Status{PID: 42, Clusters: []playground.ClusterStatus{
		{Name: "paris", URL: "https://127.0.0.1:26001", Ready: 2, Nodes: 3},
		{Name: "rome", URL: "https://127.0.0.1:26002", Err: errors.New("connection refused")},
	}})
	runtest.Check(t, err)
	want := `Running as process 42.

CLUSTER   API                  NODES READY   URL
paris     ok                   2/3           https://127.0.0.1:26001
rome      connection refused   0/0           https://127.0.0.1:26002
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
