package toolchain

import "path"

// Tool is a program built from one of the pinned modules under hack/.
type Tool struct {
	// Name of the binary.
	Name string
	// Module is the folder under hack/ whose go.mod pins the version.
	Module string
	// Package is the import path of the program's main package.
	Package string
	// Stamped programs report their module's version, which is set while linking.
	Stamped bool
}

// Programs that the playground and the integration tests run.
var (
	Etcd              = Tool{Name: "etcd", Module: "kubernetes", Package: "go.etcd.io/etcd/server/v3"}
	APIServer         = kubernetes("kube-apiserver")
	ControllerManager = kubernetes("kube-controller-manager")
	Scheduler         = kubernetes("kube-scheduler")
	Kubectl           = kubernetes("kubectl")

	KWOK = Tool{Name: "kwok", Module: "kwok", Package: "sigs.k8s.io/kwok/cmd/kwok"}

	LiqoControllerManager = liqo("liqo-controller-manager")
	LiqoCRDReplicator     = liqo("crd-replicator")
	LiqoWebhook           = liqo("webhook")
	LiqoVirtualKubelet    = liqo("virtual-kubelet")
	Liqoctl               = liqo("liqoctl")
)

func kubernetes(name string) Tool {
	return Tool{Name: name, Module: "kubernetes", Package: path.Join("k8s.io/kubernetes/cmd", name), Stamped: true}
}

func liqo(name string) Tool {
	return Tool{Name: name, Module: "liqo", Package: path.Join("github.com/liqotech/liqo/cmd", name)}
}
