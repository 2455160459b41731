package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/trail/trailtest"
)

// testAuditLog lists and exports a journal in a real cluster, without a broker.
func testAuditLog(t *testing.T, kubeconfig string) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: "broker"}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(config, client.Options{})
	if err == nil {
		err = c.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "trail"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	store, err := journal.NewConfigMaps(config, "trail")
	if err != nil {
		t.Fatal(err)
	}
	trailtest.Write(t, store, defaultJournal, trailtest.Events())
	folder := t.TempDir()
	file, edited := filepath.Join(folder, "journal.jsonl"), filepath.Join(folder, "edited.jsonl")
	for _, tc := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"a table of one actor's records", []string{"log", "--actor", "alice"}, exitDone,
			"POSITION   TIME                   KIND      ACTOR                       REQUESTER   PROVIDER   RESERVATION\n" +
				"4          2030-01-01T08:02:00Z   reserve   alice, as reported by rome   rome        paris      res-a\n"},
		{"every record of a reservation by name", []string{"log", "--reservation", "res-a", "--since", "2030-01-01T08:05:00Z", "-o", "name"}, exitDone, "record/7\nrecord/8\nrecord/9\n"},
		{"the record itself", []string{"log", "--kind", "end", "-o", "wide"}, exitDone, `"reason":"Expired"`},
		{"fields by path", []string{"log", "--cluster", "oslo", "-o", "jsonpath={.items}"}, exitDone, ""},
		{"the decision as JSON", []string{"log", "--kind", "reserve", "-o", "jsonpath={.items[0].decision.rejected.Stale} {.items[0].placement}"}, exitDone, "1 1"},
		{"YAML", []string{"log", "--kind", "acknowledge", "-o", "yaml"}, exitDone, "actor: paris"},
		{"what has ended", []string{"log", "--ended", "--cluster", "rome"}, exitDone, "2030-01-01T08:05:00Z res-a rome paris 2 cores 3m Expired -"},
		{"what has ended, as JSON", []string{"log", "--ended", "-o", "jsonpath={.items[0].requestedBy}"}, exitDone, "alice, as reported by rome"},
		{"what has ended, of a kind", []string{"log", "--ended", "--kind", "end"}, exitUsage, "no --kind"},
		{"a kind that does not exist", []string{"log", "--kind", "reserved"}, exitUsage, "reserve, restate"},
		{"a time that is none", []string{"log", "--since", "yesterday"}, exitUsage, `"yesterday" is no time`},
		{"an export to a file", []string{"export", "--file", file}, exitDone, ""},
		{"an export to a file that exists", []string{"export", "--file", file}, exitAttention, "file exists"},
		{"an export of a time without records", []string{"export", "--until", "2029-01-01T00:00:00Z"}, exitAttention, "nothing to export"},
		{"the export verifies", []string{"verify", file}, exitDone, "records 1 to 9"},
		{"an edited export does not", []string{"verify", edited}, exitAttention, "line 4: record 4 was edited"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if text, err := os.ReadFile(file); err == nil {
				if err := os.WriteFile(edited, []byte(strings.Replace(string(text), `"key":"key-a"`, `"key":"key-b"`, 1)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"audit", "--kubeconfig", kubeconfig, "--context", "broker", "-n", "trail"}, tc.args...)
			code, out, talk := run(t, args...)
			if code != tc.code || !strings.Contains(squeeze(out+talk), squeeze(tc.want)) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", code, tc.code, tc.want, out, talk)
			}
		})
	}
}

// squeeze replaces the spaces between columns by one.
func squeeze(text string) string {
	var out []string
	for line := range strings.Lines(text) {
		out = append(out, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(out, "\n")
}

func TestTimesAreRead(t *testing.T) {
	now := time.Date(2030, 1, 10, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2h":                   now.Add(-2 * time.Hour),
		"-90m":                 now.Add(-90 * time.Minute),
		"7d":                   now.AddDate(0, 0, -7),
		"2030-01-09T00:00:00Z": time.Date(2030, 1, 9, 0, 0, 0, 0, time.UTC),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, want %s: %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "2", "--2h", "d", "-1d1h", "99999d", "2030-01-09"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q is read as %s", text, got)
		}
	}
}
