package app

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

func upCommand(folder func() (string, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Start the playground and keep it running until Ctrl-C.",
		Long: `up starts the clusters, with the broker and an agent in every member cluster, and
stays in the foreground. Ctrl-C stops everything and keeps the state. No process
is left behind, even after kill -9.`,
		Args: cobra.NoArgs,
		RunE: runIn(folder, runUp),
	}
}

func runUp(ctx context.Context, out io.Writer, dir string) error {
	env, err := bootPlayground(ctx, out, dir)
	if err != nil {
		return err
	}
	kubectl, err := kubectlPath(ctx)
	if err != nil {
		return err
	}
	metrics := filepath.Join(dir, "prometheus")
	config, err := env.WritePrometheus(metrics)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, `
The playground is up. Press Ctrl-C to stop it. In another terminal:

  export KUBECONFIG=%s PATH=%s:$PATH

Worth trying:

  %[3]s --context broker get clusteradvertisements -A
  %[3]s --context rome apply -f config/samples/agent_v1alpha1_resourcerequest.yaml
  %[3]s --context rome wait --for=condition=Ready rreq/my-request && %[3]s --context rome get nodes
  %[3]s broker why my-request --context rome --also broker,paris,berlin

Metrics and alerts at http://localhost:9090 (Debian has Prometheus as package prometheus):

  prometheus --config.file=%s --storage.tsdb.path=%s

`, env.Playground.Kubeconfig(), env.Plugins, kubectl, config, filepath.Join(metrics, "data"))
	for _, name := range env.Playground.Names() {
		fmt.Fprintf(out, "  context %-8s %s\n", name, env.Playground.Clusters[name].URL())
	}
	<-ctx.Done()
	fmt.Fprintln(out, "\nStopping; the state is kept.")
	return env.Stop()
}

// kubectlPath returns the command for kubectl. This is the user's own kubectl if it is installed,
// otherwise one that kubectlPath builds.
func kubectlPath(ctx context.Context) (string, error) {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return "kubectl", nil
	}
	tools, err := toolchain.New(progress.Discard)
	if err != nil {
		return "", err
	}
	return tools.Path(toolchain.Kubectl), tools.Ensure(ctx, toolchain.Kubectl)
}
