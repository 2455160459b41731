package clusters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Cluster is a cluster that is accessed through Helm and kubectl.
type Cluster struct {
	*e2e.Cluster
	// Address is the address of one of the cluster's nodes.
	Address string

	settings *Settings
	context  string
}

// values are the values for a chart.
type values = map[string]any

// Helm runs helm on the cluster. It passes the values v, unless v is nil. The error contains Helm's output.
func (c *Cluster) Helm(ctx context.Context, v values, args ...string) (string, error) {
	args = append(args, "--kubeconfig", c.settings.Kubeconfig, "--kube-context", c.context)
	var stdin bytes.Buffer
	if v != nil {
		if err := json.NewEncoder(&stdin).Encode(v); err != nil {
			return "", err
		}
		args = append(args, "--values", "-")
	}
	cmd := exec.CommandContext(ctx, c.settings.tools.Path(toolchain.Helm), args...)
	cmd.Stdin = &stdin
	out, err := cmd.CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("helm %s in %s: %w: %s", args[0], c.Name, err, bytes.TrimSpace(out))
	}
	return string(out), nil
}

// install installs or upgrades a release. It returns when the whole release is ready.
func (c *Cluster) install(ctx context.Context, release, chart, namespace string, v values) error {
	_, err := c.Helm(ctx, v, "upgrade", release, chart, "--install", "--namespace", namespace, "--create-namespace",
		"--wait", "--timeout", "5m")
	return err
}

// revision returns the number of a release's latest revision.
func (c *Cluster) revision(ctx context.Context, release string) (int, error) {
	output, err := c.Helm(ctx, nil, "status", release, "--namespace", Namespace, "--output", "json")
	if err != nil {
		return 0, err
	}
	var status struct{ Version int }
	return status.Version, json.Unmarshal([]byte(output), &status)
}

// rollback rolls a release back to a revision. It returns when the whole release is ready.
func (c *Cluster) rollback(ctx context.Context, release string, revision int) error {
	_, err := c.Helm(ctx, nil, "rollback", release, strconv.Itoa(revision), "--namespace", Namespace, "--wait", "--timeout", "5m")
	return err
}

// Kubectl runs kubectl on the cluster and returns its output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	args = append([]string{"--kubeconfig", c.settings.Kubeconfig, "--context", c.context}, args...)
	var stderr strings.Builder
	cmd := exec.CommandContext(ctx, c.settings.tools.Path(toolchain.Kubectl), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("kubectl %s in %s: %w: %s", strings.Join(args[4:], " "), c.Name, err, strings.TrimSpace(stderr.String()))
	}
	return string(out), nil
}
