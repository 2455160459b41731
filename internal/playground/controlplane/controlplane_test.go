package controlplane_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	runtest.Check(t, err)
	client, err := kubernetes.NewForConfig(config)
	runtest.Check(t, err)
	return client
}

func TestAPIOutageAndReturn(t *testing.T) {
	cluster := controlplanetest.Start(t)
	client := clientFor(t, cluster.Kubeconfig())
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note"}, Data: map[string]string{"kept": "yes"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), note, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	runtest.Check(t, cluster.KillAPIServer())
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{}); err == nil {
		t.Error("a killed API server answered")
	}
	runtest.Check(t, cluster.StartAPIServer(t.Context()))
	got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{})
	runtest.Check(t, err)
	if diff := cmp.Diff(note.Data, got.Data); diff != "" {
		t.Errorf("after the outage (-want +got):\n%s", diff)
	}
}

func TestServiceAccountKubeconfigActsAsTheServiceAccount(t *testing.T) {
	cluster := controlplanetest.Start(t)
	admin := clientFor(t, cluster.Kubeconfig())
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}
	if _, err := admin.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := cluster.ServiceAccountKubeconfig(t.Context(), "default", "agent")
	runtest.Check(t, err)
	_, err = clientFor(t, kubeconfig).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	const user = `User "system:serviceaccount:default:agent" cannot list resource "nodes"`
	if err == nil || !strings.Contains(err.Error(), user) {
		t.Errorf("list nodes: got %v, want: %s", err, user)
	}
}

// TestRestartedNodesTakeOverAtOnce kills KWOK, and then writes a lease with which the dead instance holds the node for
// another hour. The next instance has another identity, and must end the node's pods nevertheless.
func TestRestartedNodesTakeOverAtOnce(t *testing.T) {
	cluster := controlplanetest.Start(t, func(o *controlplane.Options) { o.Nodes = []controlplane.Node{machine("rome-1")} })
	client := clientFor(t, cluster.Kubeconfig())
	pods := client.CoreV1().Pods("default")
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "ending"},
		Spec:       corev1.PodSpec{NodeName: "rome-1", Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10"}}},
	}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the pod to run", func(ctx context.Context) (bool, error) {
		got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		return err == nil && got.Status.Phase == corev1.PodRunning, err
	})

	kwok, ok := cluster.Processes().Process(toolchain.KWOK.Name)
	if !ok {
		t.Fatal("the control plane has nodes, and does not run KWOK")
	}
	kwok.Kill()
	holdForAnHour(t, client, "rome-1")
	runtest.Check(t, pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}))
	runtest.Check(t, kwok.Start())
	await(t, "the deleted pod to be gone", func(ctx context.Context) (bool, error) {
		_, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, nil
		}
		return false, err
	})
}

// holdForAnHour gives the lease of a node to a dead instance of KWOK.
func holdForAnHour(t *testing.T, client kubernetes.Interface, node string) {
	t.Helper()
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	if err := leases.Delete(t.Context(), node, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	_, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: node},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: new("dead"), LeaseDurationSeconds: new(int32(3600)), RenewTime: new(metav1.NowMicro()),
		},
	}, metav1.CreateOptions{})
	runtest.Check(t, err)
}

func await(t *testing.T, what string, condition wait.ConditionWithContextFunc) {
	t.Helper()
	if err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 2*time.Minute, true, condition); err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func machine(name string) controlplane.Node {
	return controlplane.Node{
		Name:      name,
		Resources: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")},
		Labels:    map[string]string{corev1.LabelTopologyRegion: "italy"},
	}
}

func TestKeptClusterKeepsItsAddress(t *testing.T) {
	options := controlplane.Options{
		Dir: t.TempDir(), Name: "rome",
		Progress:          progress.Func(func(step string) { t.Log(step) }),
		ControllerManager: true, Scheduler: true,
		Nodes: []controlplane.Node{machine("rome-1")},
	}
	var urls []string
	for range 2 {
		cluster, err := controlplane.Start(t.Context(), options)
		runtest.Check(t, err)
		urls = append(urls, cluster.URL())
		node, err := clientFor(t, cluster.Kubeconfig()).CoreV1().Nodes().Get(t.Context(), "rome-1", metav1.GetOptions{})
		runtest.Check(t, err)
		if got := node.Labels[corev1.LabelTopologyRegion]; got != "italy" {
			t.Errorf("region of the node is %q", got)
		}
		runtest.Check(t, cluster.Stop())
	}
	if urls[0] != urls[1] {
		t.Errorf("address changed from %s to %s", urls[0], urls[1])
	}
}
