package controlplane

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Node is a simulated machine.
type Node struct {
	Name string
	// Resources are the amounts for both capacity and allocatable.
	Resources corev1.ResourceList
	// Labels are labels in addition to those that every node has.
	Labels map[string]string
}

// simulated is the annotation by which KWOK recognizes the nodes that it manages.
const simulated = "kwok.x-k8s.io/node"

// stages are files of KWOK. They define how nodes and pods become ready and are deleted without delays. Pods of Jobs
// complete after a few seconds, or the time in their annotations. Nodes report in their status that they are alive,
// instead of in a Lease.
var stages = []string{
	"node/fast/node-initialize.yaml",
	"node/heartbeat/node-heartbeat.yaml",
	"pod/fast/pod-ready.yaml",
	"pod/general/pod-complete.yaml",
	"pod/fast/pod-delete.yaml",
}

func (c *ControlPlane) bootNodes(ctx context.Context) error {
	defer c.options.Progress.Begin(c.options.Name + ": nodes")()
	if err := c.startKWOK(ctx); err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(c.config)
	if err != nil {
		return err
	}
	for _, node := range c.options.Nodes {
		_, err := client.CoreV1().Nodes().Create(ctx, node.object(), metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return c.awaitNodes(ctx, client)
}

func (c *ControlPlane) awaitNodes(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		ready := map[string]bool{}
		for _, node := range nodes.Items {
			for _, condition := range node.Status.Conditions {
				ready[node.Name] = ready[node.Name] ||
					condition.Type == corev1.NodeReady && condition.Status == corev1.ConditionTrue
			}
		}
		for _, node := range c.options.Nodes {
			if !ready[node.Name] {
				return false, nil
			}
		}
		return true, nil
	})
}

func (c *ControlPlane) startKWOK(ctx context.Context) error {
	kubeconfig, err := c.componentKubeconfig(authority.Subject{CommonName: "kwok", Organizations: []string{administrators}})
	if err != nil {
		return err
	}
	port, err := c.Port(toolchain.KWOK.Name)
	if err != nil {
		return err
	}
	config, err := c.writeKWOKConfig(ctx)
	if err != nil {
		return err
	}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--config=" + config,
		"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=" + simulated + "=fake",
		// KWOK must not use leases. With them, a restarted instance would wait until the lease of its predecessor
		// expires. It would then ignore existing pods until they change, if its cache did not contain its own lease
		// yet.
		"--cidr=" + c.options.PodCIDR, "--node-ip=127.0.0.1", "--node-lease-duration-seconds=0",
		fmt.Sprintf("--server-address=127.0.0.1:%d", port), fmt.Sprintf("--node-port=%d", port),
	}
	if c.options.RealPods != "" {
		args = append(args, "--disregard-status-with-label-selector="+c.options.RealPods)
	}
	_, err = c.processes.Start(process.Spec{
		Name: toolchain.KWOK.Name, Path: c.options.Toolchain.Path(toolchain.KWOK), Layer: process.Controller, Restart: true,
		Env:  []string{"HOME=" + c.options.Dir}, // it keeps a work directory there
		Args: args,
	})
	return err
}

// writeKWOKConfig writes KWOK's configuration, unless it exists, and returns the path of its file. It contains the
// stages, and a log that every simulated container shows.
func (c *ControlPlane) writeKWOKConfig(ctx context.Context) (string, error) {
	file := c.path("kwok.yaml")
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		return file, err
	}
	source, err := c.options.Toolchain.ModuleDir(ctx, toolchain.KWOK.Module, "sigs.k8s.io/kwok")
	if err != nil {
		return "", err
	}
	var config bytes.Buffer
	for _, stage := range stages {
		content, err := os.ReadFile(filepath.Join(source, "kustomize", "stage", filepath.FromSlash(stage)))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&config, "---\n%s\n", content)
	}
	log := c.path("container.log")
	line := "2026-01-01T00:00:00.000000000Z stdout F a simulated container in cluster " + c.options.Name + "\n"
	if err := os.WriteFile(log, []byte(line), 0o644); err != nil {
		return "", err
	}
	fmt.Fprintf(&config, "---\napiVersion: kwok.x-k8s.io/v1alpha1\nkind: ClusterLogs\nmetadata: {name: all}\nspec:\n  logs:\n  - logsFile: %q\n", log)
	return file, os.WriteFile(file, config.Bytes(), 0o644)
}

func (n Node) object() *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		"node-role.kubernetes.io/agent": "",
	}
	maps.Copy(labels, n.Labels)
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: labels, Annotations: map[string]string{simulated: "fake"}},
		Status: corev1.NodeStatus{
			Phase: corev1.NodeRunning, Capacity: n.Resources, Allocatable: n.Resources,
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: "kwok", OperatingSystem: "linux", Architecture: "amd64"},
		},
	}
}
