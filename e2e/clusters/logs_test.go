//go:build clusters

package clusters

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestLogsAndExecThroughTheVirtualNode reads the logs of a provider's pod in the consumer, and runs a command in the
// pod from there.
func TestLogsAndExecThroughTheVirtualNode(t *testing.T) {
	env := clustersOf(t)
	rome := env.Cluster("rome")
	r := readyRequest(t, env, "logs")
	_, err := env.Run(t.Context(), rome.Cluster, r)
	check(t, err)
	pods := &corev1.PodList{}
	check(t, rome.List(t.Context(), pods, client.InNamespace(namespace)))
	pod := pods.Items[0].Name

	local, err := rome.Kubectl(t.Context(), "logs", "-n", namespace, pod)
	check(t, err)
	if !strings.Contains(local, "Started HTTP server on port 8080") {
		t.Errorf("logs read in rome are %q", local)
	}
	twins, err := env.Twins(t.Context(), "paris", pods.Items[:1])
	check(t, err)
	remote, err := env.Cluster("paris").Kubectl(t.Context(), "logs", "-n", twins[0].Namespace, pod)
	check(t, err)
	if remote != local {
		t.Errorf("logs of one pod: in paris %q, in rome %q", remote, local)
	}

	said, err := rome.Kubectl(t.Context(), "exec", "-n", namespace, pod, "--", "agnhost", "--help")
	check(t, err)
	if !strings.Contains(said, "Usage:") {
		t.Errorf("agnhost --help in rome's pod says %q", said)
	}
}
