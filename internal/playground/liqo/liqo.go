// Package liqo runs Liqo's own release in a cluster without a kubelet. It renders Liqo's chart and applies it
// unchanged. The programs that the chart runs in pods run as local processes, with the chart's arguments and the
// tokens of its ServiceAccounts. So the rights of the chart are in force.
//
// It installs authentication and offloading. The networking module needs kernel interfaces that an unprivileged
// process cannot create, and is left out.
package liqo

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// Namespace is Liqo's namespace in every cluster.
const Namespace = "liqo"

// Version is the version of Liqo that the hack/liqo module pins.
const Version = "v1.2.0"

// Binaries are the paths of Liqo's programs.
type Binaries struct {
	ControllerManager, CRDReplicator, Webhook, VirtualKubelet string
}

// Cluster is the cluster that Liqo is installed into.
type Cluster struct {
	*controlplane.ControlPlane
	// PodCIDR and ServiceCIDR of the cluster.
	PodCIDR, ServiceCIDR string
	// Labels that the virtual nodes for this cluster carry in its consumers.
	Labels map[string]string
	// Chart is the folder of Liqo's Helm chart.
	Chart    string
	Binaries Binaries
	// Clock dates the webhook's certificate.
	Clock clock.PassiveClock
}

// Liqo is a running installation.
type Liqo struct {
	cluster Cluster
	ports   ports
}

// Start installs Liqo, unless the same release is already there, and runs it with the control plane's name as cluster
// ID. It returns once Liqo answers. Liqo stops together with the control plane.
func Start(ctx context.Context, c Cluster) (*Liqo, error) {
	l := &Liqo{cluster: c}
	var err error
	if l.ports, err = choosePorts(c.ControlPlane); err != nil {
		return nil, err
	}
	release, err := renderChart(c.Chart, c.settings(l.ports))
	if err != nil {
		return nil, err
	}
	if err := l.install(ctx, release); err != nil {
		return nil, fmt.Errorf("installing Liqo in %s: %w", c.Name(), err)
	}
	if err := l.run(ctx, release); err != nil {
		return nil, fmt.Errorf("running Liqo in %s: %w", c.Name(), err)
	}
	return l, nil
}

// readyTimeout is how long Liqo may take to answer on a busy machine.
const readyTimeout = 90 * time.Second

func (l *Liqo) run(ctx context.Context, r *release) error {
	if err := os.MkdirAll(l.cluster.webhookDir(), 0o700); err != nil {
		return err
	}
	probes := map[string]int{"liqo-controller-manager": l.ports.controllerHealth, webhookService: l.ports.webhookHealth}
	var group errgroup.Group
	for i := range r.deployments {
		d := &r.deployments[i]
		group.Go(func() error {
			spec, err := l.specOf(ctx, d)
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
			ctx, cancel := context.WithTimeout(ctx, readyTimeout)
			defer cancel()
			return p.Await(ctx, process.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", port)))
		})
	}
	return group.Wait()
}
