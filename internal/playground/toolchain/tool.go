package toolchain

import "path"

// Tool is a program built from one of the pinned modules under hack/.
type Tool struct {
	// Name of the binary.
	Name string
	// Module is the folder under hack/ whose go.mod pins the version.
	Module string
	// Package is the import path of the program's main package; "." is the module's own.
	Package string
	// Stamped programs report their module's version, which is set while linking.
	Stamped bool
	// Patch is applied to the sources; zero means none.
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

// All are the programs above.
func All() []Tool {
	return []Tool{
		Etcd, APIServer, ControllerManager, Scheduler, Kubectl, KWOK, CertManager,
		LiqoControllerManager, LiqoCRDReplicator, LiqoWebhook, LiqoVirtualKubelet, Liqoctl,
	}
}

func kubernetes(name string) Tool {
	return Tool{Name: name, Module: "kubernetes", Package: path.Join("k8s.io/kubernetes/cmd", name), Stamped: true}
}

func liqo(name string) Tool {
	return Tool{Name: name, Module: "liqo", Package: path.Join("github.com/liqotech/liqo/cmd", name)}
}

// relocatedWebhook keeps its serving certificate below the working directory.
// As released it insists on a folder in /tmp, where the webhooks of several
// clusters overwrite each other's and those of another user cannot start at all.
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
