package playground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// Status describes a playground as other processes see it.
type Status struct {
	// PID is the ID of the process that runs the playground. It is 0 if none does.
	PID int
	// Clusters are the clusters that have state, in alphabetical order.
	Clusters []ClusterStatus
}

// ClusterStatus is the state of one cluster, read from its API.
type ClusterStatus struct {
	Name       string
	Kubeconfig string
	URL        string
	// Ready is the number of Ready nodes, and Nodes the number of all nodes.
	Ready, Nodes int
	// Err is the error from the cluster's API server. It is nil if the cluster answers or is not running.
	Err error
}

// Inspect returns the status of the playground in a folder. The playground need not run.
func Inspect(ctx context.Context, dir string) (Status, error) {
	pid, err := runningIn(dir)
	if err != nil {
		return Status{}, err
	}
	status := Status{PID: pid}
	kubeconfigs, err := filepath.Glob(filepath.Join(clustersOf(dir), "*", "admin.kubeconfig"))
	if err != nil {
		return Status{}, err
	}
	slices.Sort(kubeconfigs)
	for _, kubeconfig := range kubeconfigs {
		cluster := ClusterStatus{Name: filepath.Base(filepath.Dir(kubeconfig)), Kubeconfig: kubeconfig}
		if pid != 0 {
			cluster.Err = cluster.readNodes(ctx)
		}
		status.Clusters = append(status.Clusters, cluster)
	}
	return status, nil
}

// readNodes reads the nodes from the cluster and counts them.
func (c *ClusterStatus) readNodes(ctx context.Context) error {
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	if err != nil {
		return err
	}
	c.URL = config.Host
	config.Timeout = 5 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	c.Nodes = len(nodes.Items)
	for _, node := range nodes.Items {
		if slices.ContainsFunc(node.Status.Conditions, isReady) {
			c.Ready++
		}
	}
	return nil
}

func isReady(c corev1.NodeCondition) bool {
	return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
}

// runningIn returns the ID of the process that has locked the folder. It returns 0 if there is none.
func runningIn(dir string) (int, error) {
	content, err := os.ReadFile(lockOf(dir))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	lock, err := process.Hold(lockOf(dir))
	if err == nil {
		return 0, lock.Close() // the process in the file has ended
	}
	if !errors.Is(err, process.ErrInUse) {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(content)))
}

// Down asks the process that runs the playground in a folder to stop it, and waits until it has stopped. It reports
// whether there was such a process.
func Down(ctx context.Context, dir string) (bool, error) {
	pid, err := runningIn(dir)
	if err != nil || pid == 0 {
		return false, err
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return true, fmt.Errorf("process %d of the playground in %q: %w", pid, dir, err)
	}
	err = wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(context.Context) (bool, error) {
		still, err := runningIn(dir)
		return still == 0, err
	})
	if err != nil {
		return true, fmt.Errorf("process %d of the playground in %q does not stop: %w", pid, dir, err)
	}
	return true, nil
}
