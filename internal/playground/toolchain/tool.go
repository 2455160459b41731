package toolchain

import (
	"fmt"
	"path"
	"slices"
)

// Tool is a program built from one of the pinned modules under hack/.
type Tool struct {
	// Name of the binary.
	Name string
	// Module is the folder under hack/ whose go.mod pins the version.
	Module string
	// Package is the import path of the main package; "." is the module itself.
	Package string
	// Stamped programs report their module's version, which is set by the linker.
	Stamped bool
	// Patch is applied to the sources; the zero Patch does nothing.
	Patch Patch
}

// Patch replaces one piece of text in a source file of a module.
type Patch struct {
	Module string
	// File is relative to the module's folder.
	File     string
	Old, New string
}

// Programs that the playground and the integration tests run.
var (
	Etcd              = Tool{Name: "etcd", Module: "kubernetes", Package: "go.etcd.io/etcd/server/v3"}
	APIServer         = kubernetes("kube-apiserver")
	ControllerManager = kubernetes("kube-controller-manager")
	Scheduler         = kubernetes("kube-scheduler")
	Kubectl           = kubernetes("kubectl")

	KWOK = Tool{Name: "kwok", Module: "kwok", Package: "sigs.k8s.io/kwok/cmd/kwok"}

	CertManager = Tool{Name: "cert-manager", Module: "certmanager", Package: "."}

	LiqoControllerManager = liqo("liqo-controller-manager")
	LiqoCRDReplicator     = liqo("crd-replicator")
	LiqoWebhook           = relocatedWebhook()
	LiqoVirtualKubelet    = liqo("virtual-kubelet")
	Liqoctl               = liqo("liqoctl")
)

// Programs for clusters of containers: those that create the clusters, those that install charts, and those that the
// clusters run when no registry is available.
var (
	Helm      = Tool{Name: "helm", Module: "helm", Package: "helm.sh/helm/v3/cmd/helm"}
	Kind      = Tool{Name: "kind", Module: "kind", Package: "sigs.k8s.io/kind"}
	Kubeadm   = node("kubeadm")
	Kubelet   = node("kubelet")
	KubeProxy = node("kube-proxy")
	// Agnhost is Kubernetes' own workload for tests.
	Agnhost = Tool{Name: "agnhost", Module: "kind", Package: "k8s.io/kubernetes/test/images/agnhost", Stamped: true}
	CoreDNS = Tool{Name: "coredns", Module: "coredns", Package: "."}
	// LiqoReleasedWebhook is Liqo's webhook without the patch. It runs in a container, where /tmp is its own.
	LiqoReleasedWebhook = Tool{Name: "liqo-webhook", Module: "liqo", Package: "github.com/liqotech/liqo/cmd/webhook"}
)

// All returns the programs that the playground and the tests run.
func All() []Tool {
	return []Tool{
		Etcd, APIServer, ControllerManager, Scheduler, Kubectl, KWOK, CertManager,
		LiqoControllerManager, LiqoCRDReplicator, LiqoWebhook, LiqoVirtualKubelet, Liqoctl,
	}
}

// Named returns the tools with these binary names.
func Named(names ...string) ([]Tool, error) {
	known := append(All(), Helm, Kind, Kubeadm, Kubelet, KubeProxy, Agnhost, CoreDNS, LiqoReleasedWebhook)
	var tools []Tool
	for _, name := range names {
		at := slices.IndexFunc(known, func(t Tool) bool { return t.Name == name })
		if at < 0 {
			return nil, fmt.Errorf("no tool is named %q: internal/playground/toolchain/tool.go lists them", name)
		}
		tools = append(tools, known[at])
	}
	return tools, nil
}

func node(name string) Tool {
	return Tool{Name: name, Module: "kind", Package: path.Join("k8s.io/kubernetes/cmd", name), Stamped: true}
}

func kubernetes(name string) Tool {
	return Tool{Name: name, Module: "kubernetes", Package: path.Join("k8s.io/kubernetes/cmd", name), Stamped: true}
}

func liqo(name string) Tool {
	return Tool{Name: name, Module: "liqo", Package: path.Join("github.com/liqotech/liqo/cmd", name)}
}

// relocatedWebhook returns a webhook that keeps its serving certificate below the working directory. The released one
// insists on a folder in /tmp, where the webhooks of several clusters overwrite each other's certificate and those of
// another user cannot start.
func relocatedWebhook() Tool {
	tool := liqo("webhook")
	tool.Patch = Patch{
		Module: "github.com/liqotech/liqo",
		File:   "pkg/webhooks/secretcontroller/secret_controller.go",
		Old:    `"/tmp/k8s-webhook-server/serving-certs/"`,
		New:    `"k8s-webhook-server/serving-certs/"`,
	}
	return tool
}
