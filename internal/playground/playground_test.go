package playground_test

import (
	"context"
	"errors"
	"os/exec"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func startPlayground(t *testing.T, dir string) *playground.Playground {
	t.Helper()
	started := time.Now()
	p, err := playground.Up(t.Context(), playground.Options{
		Dir:      dir,
		Progress: progress.Func(func(step string) { t.Logf("%5.1fs %s", time.Since(started).Seconds(), step) }),
	})
	runtest.Check(t, err)
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestPlaygroundRestartKeepsPeerings boots the playground without state, peers two clusters, and
// boots again from the state.
func TestPlaygroundRestartKeepsPeerings(t *testing.T) {
	dir := t.TempDir()

	p := startPlayground(t, dir)
	expectNodes(t, dir)
	if _, err := playground.Up(t.Context(), playground.Options{Dir: dir}); !errors.Is(err, process.ErrInUse) {
		t.Errorf("a second playground in the folder: got %v, want %v", err, process.ErrInUse)
	}
	peerClusters(t, p, "rome", "paris")
	first := awaitLease(t, p, "rome", "paris", metav1.MicroTime{})
	address := p.Clusters["rome"].URL()
	runtest.Check(t, p.Stop())

	p = startPlayground(t, dir)
	if got := p.Clusters["rome"].URL(); got != address {
		t.Errorf("address of rome changed from %s to %s", address, got)
	}
	awaitLease(t, p, "rome", "paris", first)
	expectNodes(t, dir)
}

// expectNodes waits until all nodes are Ready. Up returns only when ordinary nodes are. A virtual node becomes
// NotReady if the boot takes longer than Kubernetes waits for a kubelet, until its kubelet reports again.
func expectNodes(t *testing.T, dir string) {
	t.Helper()
	want := map[string]bool{"broker": true, "rome": true, "paris": true, "berlin": true}
	var diff string
	err := wait.PollUntilContextTimeout(t.Context(), time.Second, time.Minute, true, func(ctx context.Context) (bool, error) {
		status, err := playground.Inspect(ctx, dir)
		if err != nil {
			return false, err
		}
		nodes := map[string]bool{}
		for _, c := range status.Clusters {
			if c.Err != nil {
				t.Errorf("cluster %q: %v", c.Name, c.Err)
			}
			nodes[c.Name] = c.Ready == c.Nodes && (c.Name == playground.BrokerCluster || c.Nodes >= 2)
		}
		diff = cmp.Diff(want, nodes)
		return diff == "", nil
	})
	if err != nil {
		t.Fatalf("%v: clusters with all their nodes Ready (-want +got):\n%s", err, diff)
	}
}

// peerClusters gives the consumer a virtual node of the provider, with liqoctl.
func peerClusters(t *testing.T, p *playground.Playground, consumer, provider string) {
	t.Helper()
	tools, err := toolchain.New(progress.Func(func(step string) { t.Log(step) }))
	runtest.Check(t, err)
	runtest.Check(t, tools.Ensure(t.Context(), toolchain.Liqoctl))
	out, err := exec.CommandContext(t.Context(), tools.Path(toolchain.Liqoctl), "peer", "--skip-confirm", "--networking-disabled",
		"--kubeconfig", p.Clusters[consumer].Kubeconfig(), "--remote-kubeconfig", p.Clusters[provider].Kubeconfig(),
		"--cpu", "1", "--memory", "1Gi", "--pods", "20").CombinedOutput()
	if err != nil {
		t.Fatalf("liqoctl peer: %v: %s", err, out)
	}
}

// awaitLease waits until the virtual kubelet has renewed its node's lease after a time, and returns the time of the
// renewal. The lease proves a live kubelet: the Ready condition outlives its kubelet for a while.
func awaitLease(t *testing.T, p *playground.Playground, cluster, node string, after metav1.MicroTime) metav1.MicroTime {
	t.Helper()
	client, err := kubernetes.NewForConfig(p.Clusters[cluster].RESTConfig())
	runtest.Check(t, err)
	var renewed metav1.MicroTime
	err = wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		lease, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node, metav1.GetOptions{})
		if err != nil || lease.Spec.RenewTime == nil {
			return false, nil //nolint:nilerr // it does not exist yet
		}
		renewed = *lease.Spec.RenewTime
		return renewed.After(after.Time), nil
	})
	if err != nil {
		t.Fatalf("virtual node %q in %q has no living kubelet: %v", node, cluster, err)
	}
	return renewed
}
