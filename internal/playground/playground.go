// Package playground boots a whole federation on one machine, as unprivileged processes. It consists of a broker
// cluster, and of member clusters with simulated nodes and the real Liqo. All clusters have cert-manager.
//
//	<dir>/lock             locked while a playground runs; contains its process ID
//	<dir>/complete         written when the first boot has succeeded; a digest of its setup
//	<dir>/kubeconfig       a kubeconfig with a context for each cluster
//	<dir>/clusters/<name>  state, logs and credentials of a cluster
//
// The state is kept, so that the next boot only starts processes. If the first boot was interrupted, or if the setup
// has changed, the state is deleted.
package playground

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Options describe the playground.
type Options struct {
	// Dir is the folder for the state. Default: the folder .playground in the checkout.
	Dir string
	// Members are the clusters that lend and borrow. Default: DefaultMembers.
	Members []Member
	// BrokerNodes are simulated nodes of the broker's cluster. By default it has none.
	BrokerNodes []controlplane.Node
	// RealPods is a label selector of the pods that KWOK does not simulate, because a release.Kubelet runs them. By
	// default KWOK simulates all pods.
	RealPods string
	// Progress receives the steps of the boot. By default they are discarded.
	Progress progress.Reporter
	// Clock gives the time for certificates. Default: the wall clock.
	Clock clock.PassiveClock
}

// Playground is a running federation.
type Playground struct {
	// Clusters maps the name of a cluster to the cluster. It contains the broker's cluster and every member.
	Clusters map[string]*Cluster

	state *state
	// background stops Liqo's virtual kubelets. It is called before the clusters stop.
	background context.CancelFunc
}

// Up boots the playground. It returns when every node is Ready, and Liqo and cert-manager answer. The virtual nodes
// of kept peerings may become Ready a few seconds later. The caller must call Stop. If this process dies without
// having called Stop, the kernel kills all its children.
func Up(ctx context.Context, o Options) (_ *Playground, err error) {
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Members == nil {
		o.Members = DefaultMembers()
	}
	tools, err := toolchain.New(o.Progress)
	if err != nil {
		return nil, err
	}
	if o.Dir, err = Dir(o.Dir); err != nil {
		return nil, err
	}
	layouts := layoutsOf(o)
	if err := tools.Ensure(ctx, programsFor(layouts)...); err != nil {
		return nil, err
	}
	digest, err := setupDigest(tools, layouts)
	if err != nil {
		return nil, err
	}
	s, err := openState(o.Dir)
	if err != nil {
		return nil, err
	}
	p, err := s.boot(ctx, digest, o.Progress, func() (*Playground, error) { return boot(ctx, s, tools, o, layouts) })
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return p, nil
}

// Dir returns the absolute path of dir, or of .playground in the checkout if dir is empty.
func Dir(dir string) (string, error) {
	if dir != "" {
		return filepath.Abs(dir)
	}
	tools, err := toolchain.New(progress.Discard)
	if err != nil {
		return "", err
	}
	return filepath.Join(tools.Root(), ".playground"), nil
}

// boot starts all clusters at once. If one fails, it stops the others.
func boot(ctx context.Context, s *state, tools *toolchain.Toolchain, o Options, layouts []layout) (*Playground, error) {
	liqo, err := liqoChart(ctx, tools)
	if err != nil {
		return nil, err
	}
	certManager, err := certManagerChart(ctx, tools)
	if err != nil {
		return nil, err
	}
	background, cancel := context.WithCancel(context.WithoutCancel(ctx))
	p := &Playground{Clusters: map[string]*Cluster{}, state: s, background: cancel}
	var mu sync.Mutex // guards p.Clusters
	group, ctx := errgroup.WithContext(ctx)
	for _, l := range layouts {
		o.Progress.Plan(1)
		if l.Liqo {
			o.Progress.Plan(1)
		}
		group.Go(func() error {
			plane, err := controlplane.Start(ctx, l.options(s.clusterDir(l.Name), tools, o))
			if err != nil {
				return err
			}
			cluster := &Cluster{ControlPlane: plane}
			mu.Lock()
			p.Clusters[l.Name] = cluster
			mu.Unlock()
			group.Go(func() error { return cluster.startCertManager(ctx, certManager, tools, o) })
			if !l.Liqo {
				return nil
			}
			return cluster.startLiqo(ctx, background, l, liqo, tools, o)
		})
	}
	err = group.Wait()
	if err == nil {
		err = p.writeKubeconfig()
	}
	if err != nil {
		return nil, errors.Join(err, p.stopClusters())
	}
	return p, nil
}

// Names returns the names of the clusters in alphabetical order.
func (p *Playground) Names() []string {
	var names []string
	for name := range p.Clusters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Kubeconfig returns the file with a context for each cluster.
func (p *Playground) Kubeconfig() string { return kubeconfigOf(p.state.dir) }

// Stop ends all processes and keeps the state. It may be called more than once.
func (p *Playground) Stop() error {
	return errors.Join(p.stopClusters(), p.state.close())
}

func (p *Playground) stopClusters() error {
	p.background()
	errs := make(chan error, len(p.Clusters))
	for _, cluster := range p.Clusters {
		go func() { errs <- cluster.Stop() }()
	}
	var all error
	for range p.Clusters {
		all = errors.Join(all, <-errs)
	}
	return all
}

// Remove deletes the state of a playground that is not running.
func Remove(dir string) error {
	s, err := openState(dir)
	if err != nil {
		return err
	}
	if err := s.reap(); err != nil {
		return errors.Join(err, s.close())
	}
	return errors.Join(os.RemoveAll(dir), s.close())
}
