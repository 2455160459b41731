package charttest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/commands"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// notesPlaceholders replaces what readers of the notes fill in. A watch would not end by itself.
var notesPlaceholders = strings.NewReplacer("CLUSTER-ID", "rome", "NAMESPACE", "team", " CHART ", " charts/broker ", " --watch", "")

// runNotes runs the commands that Helm prints after an installation.
func runNotes(t *testing.T, shell *commands.Shell) {
	t.Helper()
	const flags = " --namespace liqo-resource-broker"
	runScript(t, shell, "helm install broker oci://ghcr.io/mehdiazizian/charts/liqo-resource-broker --create-namespace"+flags+
		"\nhelm install agent oci://ghcr.io/mehdiazizian/charts/liqo-resource-broker-agent --set cluster.id=rome"+flags+
		"\nkubectl create namespace mailbox-rome\n"+objects)
	// The notes of each chart have four blocks of commands. Those of the broker check it, configure it, enrol a cluster
	// and show the state. Those of the agent enrol the cluster, check it, show the state and create a request.
	for _, release := range []string{"broker", "agent"} {
		notes, err := shell.Run(t.Context(), "helm get notes "+release+flags)
		runtest.Check(t, err)
		scripts := indentedBlocks(notes)
		if len(scripts) != 4 {
			t.Errorf("the notes of the %s have %d blocks of commands, want 4:\n%s", release, len(scripts), notes)
		}
		for i, script := range scripts {
			t.Run(fmt.Sprint(release, " ", i+1), func(t *testing.T) {
				runScript(t, shell, noWebhooks+notesPlaceholders.Replace(script))
			})
		}
	}
}

// indentedBlocks returns the blocks of lines that begin with five blanks. It keeps these blanks, because users copy them.
func indentedBlocks(text string) []string {
	var blocks []string
	inside := false
	for line := range strings.Lines(text) {
		indented := strings.HasPrefix(line, "     ")
		switch {
		case indented && inside:
			blocks[len(blocks)-1] += line
		case indented:
			blocks = append(blocks, line)
		}
		inside = indented
	}
	return blocks
}
