// Package argocd runs Argo CD as local processes in one of the playground's clusters. It applies Argo CD's own
// manifests, except those of its workloads. Each process uses the token of its ServiceAccount, and so has the rights
// that the manifests grant.
package argocd

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Namespace is the namespace of Argo CD.
const Namespace = "argocd"

// timeout is how long a component may take to start on a busy machine.
const timeout = 5 * time.Minute

// workloads are the kinds of objects in Argo CD's manifests that are not applied, because local processes replace
// them.
var workloads = []string{"Deployment", "StatefulSet", "Service", "NetworkPolicy"}

// Programs returns the programs that Start runs.
func Programs() []toolchain.Tool { return []toolchain.Tool{toolchain.ArgoCD, toolchain.Helm} }

// Start installs Argo CD in a cluster and runs it until the cluster stops. It returns when every component answers.
// The caller must have built the Programs.
func Start(ctx context.Context, cluster *controlplane.ControlPlane, tools *toolchain.Toolchain) error {
	if err := install(ctx, cluster, tools); err != nil {
		return fmt.Errorf("manifests of Argo CD: %w", err)
	}
	components, err := componentsIn(cluster)
	if err != nil {
		return err
	}
	for _, c := range components {
		if err := c.startProcess(ctx, cluster, tools); err != nil {
			return err
		}
	}
	return nil
}

// install applies Argo CD's manifests for an installation without its API server. It also creates the default
// project, which that server would create.
func install(ctx context.Context, cluster *controlplane.ControlPlane, tools *toolchain.Toolchain) error {
	dir, err := tools.ModuleDir(ctx, toolchain.ArgoCD.Module, "github.com/argoproj/argo-cd/v3")
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "manifests", "core-install.yaml"))
	if err != nil {
		return err
	}
	objects, err := manifest.Read(text)
	if err != nil {
		return err
	}
	objects = slices.DeleteFunc(objects, func(o manifest.Object) bool { return slices.Contains(workloads, o.GetKind()) })
	cl, err := client.New(cluster.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	for _, object := range objects {
		if err := manifest.Place(cl, object, Namespace); err != nil {
			return err
		}
	}
	return manifest.Install(ctx, cl, append(objects, namespace(), defaultProject()))
}

func namespace() manifest.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}}
}

func defaultProject() manifest.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
		"metadata": map[string]any{"namespace": Namespace, "name": "default"},
		"spec": map[string]any{
			"sourceRepos":              []any{"*"},
			"destinations":             []any{map[string]any{"server": "*", "namespace": "*"}},
			"clusterResourceWhitelist": []any{map[string]any{"group": "*", "kind": "*"}},
		},
	}}
}

// component is one process of Argo CD.
type component struct {
	name string
	args []string
	// account is the ServiceAccount; empty if the component does not call the API server.
	account string
	probe   func(context.Context) error
}

// componentsIn returns the components in the order of their start.
func componentsIn(cluster *controlplane.ControlPlane) ([]component, error) {
	ports := map[string]int{}
	for _, name := range []string{"redis", "repo-server", "repo-server-metrics", "controller-metrics", "sets-metrics", "sets-probe", "sets-webhook"} {
		number, err := cluster.Port("argocd/" + name)
		if err != nil {
			return nil, err
		}
		ports[name] = number
	}
	at := func(name string) string { return fmt.Sprintf("127.0.0.1:%d", ports[name]) }
	health := func(name, path string) func(context.Context) error {
		return process.Answers("http://" + at(name) + path)
	}
	return []component{
		{
			name: "redis", args: []string{at("redis")},
			probe: func(ctx context.Context) error { return dialAddress(ctx, at("redis")) },
		},
		{
			name: "repo-server",
			args: []string{
				"--redis=" + at("redis"), "--revision-cache-expiration=1s", "--disable-tls", "--address=127.0.0.1", "--metrics-address=127.0.0.1",
				fmt.Sprintf("--port=%d", ports["repo-server"]), fmt.Sprintf("--metrics-port=%d", ports["repo-server-metrics"]),
			},
			probe: health("repo-server-metrics", "/healthz?full=true"),
		},
		{
			name: "application-controller", account: "argocd-application-controller",
			args: []string{
				"--redis=" + at("redis"), "--repo-server=" + at("repo-server"), "--repo-server-plaintext",
				fmt.Sprintf("--metrics-port=%d", ports["controller-metrics"]),
				// Poll Git every few seconds, because nothing calls a webhook of Argo CD after a push.
				"--app-resync=5", "--app-resync-jitter=0",
			},
			probe: health("controller-metrics", "/healthz"),
		},
		{
			name: "applicationset-controller", account: "argocd-applicationset-controller",
			args: []string{
				"--argocd-repo-server=" + at("repo-server"), "--repo-server-plaintext",
				"--metrics-addr=" + at("sets-metrics"), "--probe-addr=" + at("sets-probe"), "--webhook-addr=" + at("sets-webhook"),
			},
			probe: func(ctx context.Context) error { return dialAddress(ctx, at("sets-probe")) },
		},
	}, nil
}

func (c *component) startProcess(ctx context.Context, cluster *controlplane.ControlPlane, tools *toolchain.Toolchain) error {
	dir := filepath.Join(cluster.Dir(), "argocd")
	temporary := filepath.Join(dir, "tmp")
	if err := os.MkdirAll(temporary, 0o755); err != nil {
		return err
	}
	args := c.args
	// The repo server finds helm through PATH. The controllers take the cluster of their kubeconfig for the cluster in
	// which they run.
	env := []string{
		"PATH=" + filepath.Dir(tools.Path(toolchain.Helm)) + string(os.PathListSeparator) + os.Getenv("PATH"),
		"HOME=" + dir, "TMPDIR=" + temporary, "HOSTNAME=argocd-application-controller-0",
		"ARGOCD_FAKE_IN_CLUSTER=true", "ARGOCD_GPG_ENABLED=false",
		"ARGOCD_TLS_DATA_PATH=" + dir, "ARGOCD_SSH_DATA_PATH=" + dir,
	}
	if c.account != "" {
		kubeconfig, err := cluster.ServiceAccountKubeconfig(ctx, Namespace, c.account)
		if err != nil {
			return err
		}
		env, args = append(env, "KUBECONFIG="+kubeconfig), append(args, "--kubeconfig="+kubeconfig, "--namespace="+Namespace)
	}
	p, err := cluster.Processes().Start(process.Spec{
		Name: "argocd-" + c.name, Path: tools.Path(toolchain.ArgoCD), Args: append([]string{c.name}, args...),
		Env: env, Dir: dir, Layer: process.Controller, Restart: true,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return p.Await(ctx, c.probe)
}

func dialAddress(ctx context.Context, at string) error {
	connection, err := (&net.Dialer{}).DialContext(ctx, "tcp", at)
	if err != nil {
		return err
	}
	return connection.Close()
}
