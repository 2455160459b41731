package controlplane_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
)

func clientFor(t *testing.T, kubeconfig string) kubernetes.Interface {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

func TestAPIOutageAndReturn(t *testing.T) {
	cluster := controlplanetest.Start(t)
	client := clientFor(t, cluster.Kubeconfig())
	note := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "note"}, Data: map[string]string{"kept": "yes"}}
	if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), note, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	if err := cluster.KillAPIServer(); err != nil {
		t.Fatal(err)
	}
	if _, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{}); err == nil {
		t.Error("a killed API server answered")
	}
	if err := cluster.StartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := client.CoreV1().ConfigMaps("default").Get(t.Context(), "note", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	_, err = clientFor(t, kubeconfig).CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	const user = `User "system:serviceaccount:default:agent" cannot list resource "nodes"`
	if err == nil || !strings.Contains(err.Error(), user) {
		t.Errorf("list nodes: got %v, want: %s", err, user)
	}
}

func TestKeptClusterKeepsItsAddress(t *testing.T) {
	options := controlplane.Options{
		Dir: t.TempDir(), Name: "rome",
		Progress:          progress.Func(func(step string) { t.Log(step) }),
		ControllerManager: true, Scheduler: true,
		Nodes: []controlplane.Node{{
			Name:      "rome-1",
			Resources: corev1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("8Gi"), "pods": resource.MustParse("110")},
			Labels:    map[string]string{corev1.LabelTopologyRegion: "italy"},
		}},
	}
	var urls []string
	for range 2 {
		cluster, err := controlplane.Start(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, cluster.URL())
		node, err := clientFor(t, cluster.Kubeconfig()).CoreV1().Nodes().Get(t.Context(), "rome-1", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := node.Labels[corev1.LabelTopologyRegion]; got != "italy" {
			t.Errorf("region of the node is %q", got)
		}
		if err := cluster.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if urls[0] != urls[1] {
		t.Errorf("address changed from %s to %s", urls[0], urls[1])
	}
}
