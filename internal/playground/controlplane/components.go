package controlplane

import (
	"context"
	"fmt"
	"net/http"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

func (c *ControlPlane) startEtcd(ctx context.Context) error {
	client, err := c.loopbackURL("etcd")
	if err != nil {
		return err
	}
	peer, err := c.loopbackURL("etcd-peer")
	if err != nil {
		return err
	}
	args := []string{
		"--name=" + c.options.Name,
		"--data-dir=" + c.path("etcd"),
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer,
		"--initial-cluster=" + c.options.Name + "=" + peer,
		"--log-level=warn",
	}
	if !c.options.Fsync {
		// Without fsync, data is lost only if the machine crashes, not if etcd crashes.
		args = append(args, "--unsafe-no-fsync")
	}
	etcd, err := c.startComponent(toolchain.Etcd, process.Storage, args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return etcd.Await(ctx, func(ctx context.Context) error { return get(ctx, http.DefaultClient, client+"/readyz") })
}

func (c *ControlPlane) startAPIServer(ctx context.Context) error {
	etcd, err := c.loopbackURL("etcd")
	if err != nil {
		return err
	}
	pki := c.path("pki")
	certificate, key, err := c.authority.IssueFiles(pki, "apiserver", authority.Subject{CommonName: "kube-apiserver", Hosts: []string{
		"127.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"}})
	if err != nil {
		return err
	}
	kubeletCertificate, kubeletKey, err := c.authority.IssueFiles(pki, "kubelet-client", authority.Subject{
		CommonName: "kube-apiserver-kubelet-client", Organizations: []string{administrators}})
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=" + etcd,
		"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1",
		fmt.Sprintf("--secure-port=%d", c.ports.of("kube-apiserver")),
		// The API server may not publish a loopback address as the endpoint of the Service
		// "kubernetes".
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + c.options.ServiceCIDR,
		"--authorization-mode=Node,RBAC", "--allow-privileged=true",
		"--client-ca-file=" + c.authority.CertFile(),
		"--tls-cert-file=" + certificate, "--tls-private-key-file=" + key,
		"--kubelet-client-certificate=" + kubeletCertificate, "--kubelet-client-key=" + kubeletKey,
		"--kubelet-preferred-address-types=InternalIP",
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + c.serviceAccountKey(), "--service-account-signing-key-file=" + c.serviceAccountKey(),
		"--profiling=false",
	}
	if !c.options.ControllerManager {
		// Without the controllers, the ServiceAccount that every Pod needs would not be created.
		args = append(args, "--disable-admission-plugins=ServiceAccount")
	}
	if timeout := c.options.RequestTimeout; timeout > 0 {
		args = append(args, "--request-timeout="+timeout.String())
	}
	if c.options.RealPods != "" {
		config, err := c.startEgress()
		if err != nil {
			return err
		}
		args = append(args, "--egress-selector-config-file="+config)
	}
	apiServer, err := c.startComponent(toolchain.APIServer, process.API, args...)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return apiServer.Await(ctx, c.checkReady)
}

func (c *ControlPlane) startControllerManager() error {
	kubeconfig, err := c.componentKubeconfig(authority.Subject{CommonName: "system:kube-controller-manager"})
	if err != nil {
		return err
	}
	port, err := c.Port(toolchain.ControllerManager.Name)
	if err != nil {
		return err
	}
	_, err = c.startComponent(toolchain.ControllerManager, process.Controller,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--service-account-private-key-file="+c.serviceAccountKey(),
		"--root-ca-file="+c.authority.CertFile(),
		"--cluster-signing-cert-file="+c.authority.CertFile(), "--cluster-signing-key-file="+c.authority.KeyFile(),
		"--use-service-account-credentials=true", "--leader-elect=false", "--profiling=false")
	return err
}

func (c *ControlPlane) startScheduler() error {
	kubeconfig, err := c.componentKubeconfig(authority.Subject{CommonName: "system:kube-scheduler"})
	if err != nil {
		return err
	}
	port, err := c.Port(toolchain.Scheduler.Name)
	if err != nil {
		return err
	}
	_, err = c.startComponent(toolchain.Scheduler, process.Controller,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port),
		"--leader-elect=false", "--profiling=false")
	return err
}

func (c *ControlPlane) startComponent(tool toolchain.Tool, layer process.Layer, args ...string) (*process.Process, error) {
	return c.processes.Start(process.Spec{
		Name: tool.Name, Path: c.options.Toolchain.Path(tool), Args: args, Layer: layer,
		// etcd and the API server are not restarted, so that their end is reported as an error.
		Restart: layer > process.API,
	})
}

func (c *ControlPlane) loopbackURL(name string) (string, error) {
	port, err := c.Port(name)
	return fmt.Sprintf("http://127.0.0.1:%d", port), err
}
