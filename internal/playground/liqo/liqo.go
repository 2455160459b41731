// Package liqo runs Liqo's own release in a cluster without a kubelet. It renders Liqo's chart and applies the
// objects, except those that need a kubelet or the network. Local processes replace the pods of the chart. They have
// the arguments from the chart and the tokens of the chart's ServiceAccounts, and so the rights that the chart
// grants.
//
// The package installs authentication and offloading. It leaves out the networking module, because an unprivileged
// process cannot create the kernel interfaces that this module needs.
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
	// PodCIDR and ServiceCIDR are the address ranges of the cluster's pods and Services.
	PodCIDR, ServiceCIDR string
	// Labels are set on the virtual nodes for this cluster in other clusters.
	Labels map[string]string
	// Chart is the folder of Liqo's Helm chart.
	Chart    string
	Binaries Binaries
	// Clock gives the time for the webhook's certificate.
	Clock clock.PassiveClock
}

// Liqo is a running installation of Liqo.
type Liqo struct {
	cluster Cluster
	ports   ports
}

// Start installs Liqo, unless the same release is already installed, and runs it. The control plane's name is the
// cluster ID. Start returns when Liqo answers. Liqo stops together with the control plane.
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
const readyTimeout = 5 * time.Minute

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
