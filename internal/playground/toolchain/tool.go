package toolchain

import (
	"fmt"
	"path"
	"slices"
)

// Tool is a program that is built from one of the modules under hack/, which pin its version.
type Tool struct {
	// Name is the name of the binary.
	Name string
	// Module is the folder under hack/ whose go.mod pins the version.
	Module string
	// Package is the import path of the main package. "." is the root of the module itself.
	Package string
	// Stamped is true if the linker must set the version that the program reports.
	Stamped bool
	// Patch is applied to the sources before the build. The zero Patch changes nothing.
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

// Programs that only one suite of tests runs.
var (
	ArgoCD = Tool{Name: "argocd", Module: "argocd", Package: "."}
	Kueue  = Tool{Name: "kueue", Module: "kueue", Package: "sigs.k8s.io/kueue/cmd/kueue"}
)

// Programs for clusters that run containers. They create the clusters, install charts, or run inside the clusters if
// no registry is available.
var (
	Helm      = Tool{Name: "helm", Module: "helm", Package: "helm.sh/helm/v3/cmd/helm"}
	Kind      = Tool{Name: "kind", Module: "kind", Package: "sigs.k8s.io/kind"}
	Kubeadm   = node("kubeadm")
	Kubelet   = node("kubelet")
	KubeProxy = node("kube-proxy")
	// Agnhost is the program in the containers of Kubernetes' own tests.
	Agnhost = Tool{Name: "agnhost", Module: "kind", Package: "k8s.io/kubernetes/test/images/agnhost", Stamped: true}
	CoreDNS = Tool{Name: "coredns", Module: "coredns", Package: "."}
	// LiqoReleasedWebhook is Liqo's webhook without the patch. It runs in a container, which has a /tmp of its own.
	LiqoReleasedWebhook = Tool{Name: "liqo-webhook", Module: "liqo", Package: "github.com/liqotech/liqo/cmd/webhook"}
)

// All returns the programs that the playground and the tests run.
func All() []Tool {
	return []Tool{
		Etcd, APIServer, ControllerManager, Scheduler, Kubectl, KWOK, CertManager,
		LiqoControllerManager, LiqoCRDReplicator, LiqoWebhook, LiqoVirtualKubelet, Liqoctl, Helm,
	}
}

// Named returns the tools whose binaries have the given names.
func Named(names ...string) ([]Tool, error) {
	known := append(All(), ArgoCD, Kueue, Kind, Kubeadm, Kubelet, KubeProxy, Agnhost, CoreDNS, LiqoReleasedWebhook)
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

// relocatedWebhook returns Liqo's webhook with a patch: the patched program keeps its certificate below its working
// directory. Without the patch, the program keeps it in a fixed folder in /tmp. There, the webhooks of several clusters
// would overwrite each other's certificate, and the webhook of another user could not start.
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
