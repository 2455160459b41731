// Package liqo runs Liqo's own release in a cluster that has no kubelet: its chart
// is rendered and applied as it is, and what the chart would run in pods runs as
// processes of this machine, with the chart's arguments and the tokens of the
// chart's ServiceAccounts, so that the chart's rights are the rights in force.
//
// Authentication and offloading are installed. The networking module needs kernel
// interfaces that an unprivileged process cannot make, and is left out.
package liqo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
)

// Namespace of Liqo in every cluster.
const Namespace = "liqo"

// Version of Liqo that the hack/liqo module pins.
const Version = "v1.2.0"

// Binaries are the programs of Liqo.
type Binaries struct {
	ControllerManager, CRDReplicator, Webhook, VirtualKubelet string
}

// Cluster is the cluster that Liqo is installed into.
type Cluster struct {
	*controlplane.ControlPlane
	// PodCIDR and ServiceCIDR of the cluster.
	PodCIDR, ServiceCIDR string
	// Labels that every virtual node of this cluster carries in its consumers.
	Labels map[string]string
	// Chart is the folder of Liqo's Helm chart.
	Chart    string
	Binaries Binaries
}

// Liqo is a running installation.
type Liqo struct {
	cluster  Cluster
	ports    ports
	kubelets *kubelets
}

// Start installs Liqo, unless the same release is there, and runs it under the
// control plane's name as cluster ID. It returns once Liqo answers. What it started
// ends with the control plane; ctx ends the launching of virtual kubelets.
func Start(ctx context.Context, c Cluster) (*Liqo, error) {
	l := &Liqo{cluster: c}
	var err error
	if l.ports, err = choosePorts(c.ControlPlane); err != nil {
		return nil, err
	}
	certificates, err := webhookCertificates(filepath.Join(c.Dir(), "liqo-webhook"))
	if err != nil {
		return nil, err
	}
	release, err := render(c, l.ports)
	if err != nil {
		return nil, err
	}
	if err := release.prepare(l.ports, certificates); err != nil {
		return nil, err
	}
	if err := install(ctx, c, release); err != nil {
		return nil, fmt.Errorf("installing Liqo in %s: %w", c.Name(), err)
	}
	if err := l.run(ctx, release, certificates); err != nil {
		return nil, fmt.Errorf("running Liqo in %s: %w", c.Name(), err)
	}
	l.kubelets = newKubelets(l)
	return l, l.kubelets.start(ctx)
}

// ready is how long Liqo may take to answer on a busy machine.
const ready = 90 * time.Second

func (l *Liqo) run(ctx context.Context, r *release, certificates webhookFiles) error {
	probes := map[string]int{"liqo-controller-manager": l.ports.controllerHealth, "liqo-webhook": l.ports.webhookHealth}
	var group errgroup.Group
	for i := range r.deployments {
		d := &r.deployments[i]
		group.Go(func() error {
			spec, err := l.specOf(ctx, d, certificates)
			if err != nil {
				return err
			}
			p, err := l.cluster.Processes().Start(spec)
			if err != nil {
				return err
			}
			port, ok := probes[d.Name]
			if !ok {
				return nil
			}
			ctx, cancel := context.WithTimeout(ctx, ready)
			defer cancel()
			return p.Await(ctx, answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", port)))
		})
	}
	return group.Wait()
}

func ensureDir(path string) error {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return fmt.Errorf("making a folder for Liqo: %w", err)
	}
	return nil
}
