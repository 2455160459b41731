package charttest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/e2e/commands"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// helmScript runs Helm with the charts of the checkout. No pod runs, so it does not wait for any and leaves out hooks.
const helmScript = `
cd "$ROOT"
args=()
for arg; do
  case $arg in
  oci://ghcr.io/mehdiazizian/charts/liqo-resource-broker) arg=charts/broker ;;
  oci://ghcr.io/mehdiazizian/charts/liqo-resource-broker-agent) arg=charts/agent ;;
  oci://quay.io/jetstack/charts/cert-manager) exit ;; # its CRDs are there
  --wait) continue ;;
  esac
  args+=("$arg")
done
case $1 in
install)
  "$HELM" uninstall "$2" --namespace liqo-resource-broker --no-hooks --ignore-not-found
  "$HELM" "${args[@]}" --no-hooks ;;
upgrade | rollback | uninstall) "$HELM" "${args[@]}" --no-hooks ;;
test) "$HELM" get hooks "$2" --namespace liqo-resource-broker | grep 'helm.sh/hook: test' ;;
*) "$HELM" "${args[@]}" ;;
esac
`

// kubectlScript runs kubectl. The contexts share one API server, so a namespace may exist already. No pod runs. For a
// command in a pod, the script therefore only reads the Deployment; archtest checks the flags of that command. For the
// status of a rollout, it reads the history.
const kubectlScript = `
words=" $* "
if [[ $words == *" create namespace "* ]]; then
  "$KUBECTL" "$@" --dry-run=client --output yaml | "$KUBECTL" apply --filename -
elif [[ $words == *" exec deployment/broker-liqo-resource-broker -- broker "* ]]; then
  exec "$KUBECTL" --namespace liqo-resource-broker get deployment broker-liqo-resource-broker
elif [[ $words == *" rollout status "* ]]; then
  exec "$KUBECTL" "${@/status/history}"
elif [[ $words == *" broker status "* ]]; then
  "$KUBECTL" "$@" || [[ $? == 1 ]] # something needs attention
else
  exec "$KUBECTL" "$@"
fi
`

// makeScript shows what make would run.
const makeScript = `exec "$MAKE" --directory "$ROOT" --dry-run "$@"`

// noWebhooks removes the webhooks of the charts, which no process serves.
const noWebhooks = "kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations --all\n"

// objects creates what the commands of the pages read and change.
const objects = noWebhooks + `
kubectl apply --filename - <<END
apiVersion: liqo.io/v1alpha1
kind: ResourceRequest
metadata: {name: my-request, namespace: default}
spec: {cpu: "2", memory: 4Gi}
---
apiVersion: liqo.io/v1alpha1
kind: Advertisement
metadata: {name: cluster-advertisement, namespace: default}
spec: {clusterID: rome, resources: {capacity: {cpu: "8"}}}
---
apiVersion: liqo.io/v1alpha1
kind: LendingPolicy
metadata: {name: default}
---
apiVersion: broker.fluidos.eu/v1alpha1
kind: ClusterAdvertisement
metadata: {name: paris, namespace: liqo-resource-broker}
spec:
  clusterID: paris
  resources: {capacity: {cpu: "8", memory: 32Gi}}
---
apiVersion: core.liqo.io/v1beta1
kind: ForeignCluster
metadata: {name: paris}
spec: {clusterID: paris}
---
{apiVersion: v1, kind: Node, metadata: {name: worker-1}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: team}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: agent, namespace: mailbox-rome}}
END
for name in agent-rome tls agents-ca servers-ca; do
  kubectl --namespace liqo-resource-broker create secret generic broker-liqo-resource-broker-$name --dry-run=client --output yaml \
    --from-literal=tls.crt=certificate --from-literal=tls.key=key --from-literal=ca.crt=root | kubectl apply --filename -
done
touch paris.kubeconfig
`

// before maps a block to the script that must run before it.
var before = map[string]string{
	"charts/agent/README.md: kubectl patch": objects,
	"docs/reachability.md: kubectl":         noWebhooks,
	"docs/upgrade.md: helm history":         "helm upgrade broker charts/broker --namespace liqo-resource-broker --reuse-values",
	"docs/upgrade.md: helm upgrade agent":   "helm install agent charts/agent --namespace liqo-resource-broker --set cluster.id=rome",
}

// placeholders replaces the placeholders in commands by values.
var placeholders = strings.NewReplacer(
	"sha256:…", "sha256:"+strings.Repeat("0", 64), "sha256:...", "sha256:"+strings.Repeat("0", 64), "token=…", "token=abc", "token=...", "token=abc",
	"test RELEASE", "test broker", "namespace NAME", "namespace team", "resourcerequest NAME", "resourcerequest my-request",
	"broker why NAME", "broker why my-request", "resourcerequest training", "resourcerequest my-request", "-n try", "-n default",
	"context BROKER", "context broker", "context MEMBER", "context rome",
	"  --set service.type=NodePort", "helm install broker charts/broker --namespace liqo-resource-broker --set service.type=NodePort",
)

// TestDocumentedInstallation runs the commands of the pages that install and operate, and those that Helm prints after an
// installation, with real Helm and kubectl. With -short it leaves out upgrades and what Helm prints, which take half of
// the time.
func TestDocumentedInstallation(t *testing.T) {
	shell := documentedShell(t)
	blocks, err := commands.Of("../..", t.Name())
	runtest.Check(t, err)
	for _, b := range blocks {
		if testing.Short() && b.Matches("docs/upgrade.md: ") {
			continue
		}
		t.Run(b.String(), func(t *testing.T) {
			for key, script := range before {
				if b.Matches(key) {
					runScript(t, shell, script)
				}
			}
			runScript(t, shell, placeholders.Replace(b.Script))
		})
	}
	if !testing.Short() {
		t.Run("notes", func(t *testing.T) { runNotes(t, shell) })
	}
}

func runScript(t *testing.T, shell *commands.Shell, script string) {
	t.Helper()
	out, err := shell.Run(t.Context(), script)
	runtest.Check(t, err)
	t.Log(out)
}

// documentedShell returns a shell whose contexts broker, rome and paris are the same API server.
func documentedShell(t *testing.T) *commands.Shell {
	t.Helper()
	tools, err := toolchain.New(progress.Func(func(step string) { t.Log(step) }))
	runtest.Check(t, err)
	runtest.Check(t, tools.Ensure(t.Context(), toolchain.Helm, toolchain.Kubectl))
	plane := controlplanetest.Start(t)
	admin, err := client.New(plane.RESTConfig(), client.Options{})
	runtest.Check(t, err)
	createPrerequisites(t, admin)
	liqo, err := tools.ModuleDir(t.Context(), "liqo", "github.com/liqotech/liqo")
	runtest.Check(t, err)
	realMake, err := exec.LookPath("make")
	runtest.Check(t, err)
	shell := &commands.Shell{Dir: t.TempDir(), Bin: t.TempDir(), Env: []string{
		"KUBECONFIG=" + writeContexts(t, plane.Kubeconfig(), "broker", "rome", "paris"), "ROOT=" + tools.Root(), "NS=" + namespace,
		"HELM=" + tools.Path(toolchain.Helm), "KUBECTL=" + tools.Path(toolchain.Kubectl), "MAKE=" + realMake,
	}}
	// The commands of the documentation expect the plugin that "make build" builds. They run with an empty home folder,
	// so that no file of the developer changes their output.
	shell.Env = append(shell.Env, "HOME="+filepath.Join(shell.Dir, "home"))
	plugin := controlplanetest.Program(t, "kubectl-broker")
	for _, binary := range []string{filepath.Join(shell.Dir, "bin", "kubectl-broker"), filepath.Join(shell.Bin, "kubectl-broker")} {
		runtest.Check(t, errors.Join(os.MkdirAll(filepath.Dir(binary), 0o755), os.Symlink(plugin, binary)))
	}
	for program, script := range map[string]string{"helm": helmScript, "kubectl": kubectlScript, "make": makeScript} {
		runtest.Check(t, shell.Install(program, script))
	}
	runScript(t, shell, "kubectl apply --filename "+filepath.Join(liqo, "deployments/liqo/charts/liqo-crds/crds/core.liqo.io_foreignclusters.yaml"))
	return shell
}

// writeContexts writes a kubeconfig with several contexts for one cluster, and returns its name.
func writeContexts(t *testing.T, admin string, names ...string) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(admin)
	runtest.Check(t, err)
	for _, name := range names {
		config.Contexts[name] = config.Contexts[config.CurrentContext].DeepCopy()
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	runtest.Check(t, clientcmd.WriteToFile(*config, file))
	return file
}
