package local

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/commands"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// memberPages are the pages whose commands run in the context of a member. The commands of all other pages run in the
// context of the broker.
var memberPages = []string{"docs/app-teams.md", "docs/configuration.md", "docs/offloading.md", "docs/receipts.md"}

// TestDocumentedCommands runs the commands of the pages that need a running broker, agents and Liqo.
func TestDocumentedCommands(t *testing.T) {
	env := playgroundOf(t)
	shell := shellOf(t, env)
	copyFile(t, filepath.Join(shell.Dir, "workload.yaml"), "../../docs/examples/member/deployment.yaml",
		"namespace: default", "namespace: try", "request: burst", "request: my-request")
	const configuration = "apiVersion: agent.fluidos.eu/v1alpha1\nkind: AgentConfiguration\noffer: {share: 80%}\n"
	check(t, os.WriteFile(filepath.Join(shell.Dir, "agent.yaml"), []byte(configuration), 0o600))
	const request = "apiVersion: liqo.io/v1alpha1\nkind: ResourceRequest\nmetadata: {name: my-quoted-request}\nspec: {cpu: 500m, memory: 64Mi}\n"
	check(t, os.WriteFile(filepath.Join(shell.Dir, "my-request.yaml"), []byte(request), 0o600))
	const end = "kubectl --context rome delete namespace try --ignore-not-found"
	t.Cleanup(func() {
		_, err := shell.Run(context.Background(), end)
		check(t, err)
	})
	runBlocks(t, shell, map[string]string{
		"docs/install.md: kubectl --context rome create": end,
		// The journal of a new playground is not a minute old yet.
		"docs/kubectl-broker.md: kubectl broker top --at": "timeout 70 bash -c 'until kubectl broker top --at 1m --context broker >/dev/null 2>&1; do sleep 1; done'",
	})
}

// runBlocks runs the blocks that belong to a test. before maps a block to what must run first.
func runBlocks(t *testing.T, shell *commands.Shell, before map[string]string) {
	t.Helper()
	blocks, err := commands.Of("../..", t.Name())
	check(t, err)
	for _, b := range blocks {
		context, first := "broker", ""
		if slices.Contains(memberPages, b.Page) {
			context = "rome"
		}
		for key, script := range before {
			if b.Matches(key) {
				first = script
			}
		}
		runBlock(t, shell, b, context, first)
	}
}

// runBlock runs a block in a kubectl context, after another script.
func runBlock(t *testing.T, shell *commands.Shell, b commands.Block, context, first string) {
	t.Helper()
	began := time.Now()
	// In the playground, the objects of the broker's release are called broker.
	script := strings.ReplaceAll(b.Script, "broker-liqo-resource-broker", "broker")
	out, err := shell.Run(t.Context(), "kubectl config use-context "+context+"\n"+first+"\n"+script)
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	t.Logf("%s took %.1f s:\n%s", b, time.Since(began).Seconds(), out)
}

// shellOf returns a shell in a folder with the playground's kubeconfig at the path that it has in a checkout. The
// shell finds the kubectl plugin. kubectl exec starts another process of the pod's program on this machine.
func shellOf(t *testing.T, env *Environment) *commands.Shell {
	t.Helper()
	tools, err := toolchain.New(nil)
	check(t, err)
	dir := t.TempDir()
	kubeconfig := filepath.Join(dir, ".playground", "kubeconfig")
	check(t, os.Mkdir(filepath.Dir(kubeconfig), 0o700))
	copyFile(t, kubeconfig, env.Playground.Kubeconfig())
	shell := &commands.Shell{Dir: dir, Bin: t.TempDir(), Env: []string{"KUBECONFIG=" + kubeconfig, "NS=" + env.BrokerNamespace}}

	kubectl := quoted([]string{tools.Path(toolchain.Kubectl)})
	inPod, err := env.Product.Pods("broker")[0].Command(t.Context())
	check(t, err)
	check(t, shell.Install("kubectl", `
words=" $* "
if [[ $words == *" exec deployment/broker -- broker "* ]]; then
  while [[ $1 != -- ]]; do shift; done
  shift 2
  exec env -i `+quoted(append(inPod.Env, inPod.Args...))+` "$@"
fi
if [[ $words == *" broker watch "* ]]; then
  timeout 3 `+kubectl+` "$@" || [[ $? == 124 ]] # it does not end by itself
  exit
fi
exec `+kubectl+` "$@"
`))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", shell.Bin+"/", "./cmd/agent", "./cmd/kubectl-broker")
	build.Dir = tools.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	_, err = shell.Run(t.Context(), "kubectl config set-context rome --namespace try")
	check(t, err)
	return shell
}

// quoted returns words for a shell.
func quoted(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, "'"+strings.ReplaceAll(w, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

// copyFile copies a file, in which it replaces words by others.
func copyFile(t *testing.T, to, from string, replaced ...string) {
	t.Helper()
	text, err := os.ReadFile(from)
	check(t, err)
	check(t, os.WriteFile(to, []byte(strings.NewReplacer(replaced...).Replace(string(text))), 0o600))
}
