// Package controlplane runs Kubernetes control planes as local processes on loopback addresses. A control plane
// has etcd and an API server, and optionally the controllers, the scheduler and nodes that KWOK simulates.
//
// A control plane keeps its state in a folder. After a restart it has the same state and the same address. etcd
// has no authentication, so other users of the machine can reach it. It holds only data of playgrounds and tests.
package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/authority"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Options describe a control plane.
type Options struct {
	// Dir is the folder for the state. It must be absolute and belong to one control plane only.
	Dir string
	// Name is used in kubeconfigs and progress. Default: the last element of Dir.
	Name string
	// Toolchain builds the programs. Default: the toolchain of the current checkout.
	Toolchain *toolchain.Toolchain
	// Progress receives the steps of the start. By default they are discarded.
	Progress progress.Reporter
	// ServiceCIDR is the range of Service addresses. Default: 10.96.0.0/16.
	ServiceCIDR string
	// PodCIDR is the range of KWOK's Pod addresses. Default: 10.244.0.0/16.
	PodCIDR string
	// ControllerManager runs kube-controller-manager. Without it, namespaces and dependent objects are never
	// deleted, and pods need no ServiceAccount.
	ControllerManager bool
	// Scheduler runs kube-scheduler.
	Scheduler bool
	// Nodes are the nodes that KWOK simulates. KWOK runs only if there are any.
	Nodes []Node
	// RealPods is a label selector of the pods that KWOK does not simulate, because another program runs them and
	// writes their status. If it is set, the API server also reaches Services by their cluster addresses; see Route.
	RealPods string
	// Fsync makes etcd wait for the disk, as in production. Benchmarks set it.
	Fsync bool
	// RequestTimeout is the longest time for one request. Listing very many objects may need more than the default of
	// one minute.
	RequestTimeout time.Duration
	// Clock gives the time for the certificates. Default: the wall clock.
	Clock clock.PassiveClock
}

// ControlPlane is a running control plane.
type ControlPlane struct {
	options   Options
	authority *authority.Authority
	ports     *ports
	processes *process.Supervisor
	config    *rest.Config
	// egress is the proxy through which the API server reaches webhooks. It is nil without RealPods.
	egress *egress
	// lifetime is done when Stop or Kill begins.
	lifetime context.Context
	end      context.CancelFunc
}

// readyTimeout is how long a component may take to become ready. It is long enough for a busy machine with two
// cores.
const readyTimeout = 5 * time.Minute

// Programs returns the programs that a control plane with these options runs.
func (o Options) Programs() []toolchain.Tool {
	programs := []toolchain.Tool{toolchain.Etcd, toolchain.APIServer}
	if o.ControllerManager {
		programs = append(programs, toolchain.ControllerManager)
	}
	if o.Scheduler {
		programs = append(programs, toolchain.Scheduler)
	}
	if len(o.Nodes) > 0 {
		programs = append(programs, toolchain.KWOK)
	}
	return programs
}

// Start boots a control plane. It returns when the API server is ready and the nodes are Ready. It builds missing
// programs first.
func Start(ctx context.Context, o Options) (*ControlPlane, error) {
	if !filepath.IsAbs(o.Dir) {
		return nil, fmt.Errorf("folder %q of a control plane must be absolute", o.Dir)
	}
	o.Name = cmp.Or(o.Name, filepath.Base(o.Dir))
	o.ServiceCIDR = cmp.Or(o.ServiceCIDR, "10.96.0.0/16")
	o.PodCIDR = cmp.Or(o.PodCIDR, "10.244.0.0/16")
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Toolchain == nil {
		var err error
		if o.Toolchain, err = toolchain.New(o.Progress); err != nil {
			return nil, err
		}
	}
	if err := o.Toolchain.Ensure(ctx, o.Programs()...); err != nil {
		return nil, err
	}
	processes, err := process.NewSupervisor(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("control plane %q: %w", o.Name, err)
	}
	c := &ControlPlane{options: o, processes: processes}
	c.lifetime, c.end = context.WithCancel(context.WithoutCancel(ctx))
	if err := c.boot(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("control plane %q: %w", o.Name, err), c.Stop())
	}
	return c, nil
}

func (c *ControlPlane) boot(ctx context.Context) error {
	c.options.Progress.Plan(1)
	if len(c.options.Nodes) > 0 {
		c.options.Progress.Plan(1)
	}
	if err := c.bootAPI(ctx); err != nil {
		return err
	}
	if c.options.ControllerManager {
		if err := c.startControllerManager(); err != nil {
			return err
		}
	}
	if c.options.Scheduler {
		if err := c.startScheduler(); err != nil {
			return err
		}
	}
	if len(c.options.Nodes) == 0 {
		return nil
	}
	return c.bootNodes(ctx)
}

func (c *ControlPlane) bootAPI(ctx context.Context) error {
	defer c.options.Progress.Begin(c.options.Name + ": Kubernetes API")()
	if err := c.prepare(); err != nil {
		return err
	}
	// Because of the group, startAPIServer stops waiting if startEtcd fails.
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return c.startEtcd(ctx) })
	group.Go(func() error { return c.startAPIServer(ctx) })
	return group.Wait()
}

// prepare writes the files that the processes read: ports, keys, certificates and kubeconfigs.
func (c *ControlPlane) prepare() error {
	if err := os.MkdirAll(c.path("pki"), 0o700); err != nil {
		return err
	}
	var err error
	if c.ports, err = openPorts(c.path("ports.json")); err != nil {
		return err
	}
	if c.authority, err = authority.Open(c.path("pki"), c.options.Name, c.options.Clock.Now); err != nil {
		return err
	}
	if err := createServiceAccountKey(c.path("pki")); err != nil {
		return err
	}
	c.config, err = c.writeAdminKubeconfig()
	return err
}

// Name returns the cluster's name.
func (c *ControlPlane) Name() string { return c.options.Name }

// Dir returns the folder with the cluster's state.
func (c *ControlPlane) Dir() string { return c.options.Dir }

// URL returns the address of the API server. It stays the same after a restart.
func (c *ControlPlane) URL() string {
	return fmt.Sprintf("https://127.0.0.1:%d", c.ports.of("kube-apiserver"))
}

// CA returns the certificate of the authority that signed the API server's certificate, in PEM.
func (c *ControlPlane) CA() []byte { return c.authority.PEM() }

// RESTConfig returns an administrator's client configuration.
func (c *ControlPlane) RESTConfig() *rest.Config { return rest.CopyConfig(c.config) }

// Kubeconfig returns the file with an administrator's credentials.
func (c *ControlPlane) Kubeconfig() string { return c.path("admin.kubeconfig") }

// Processes returns the supervisor of the cluster's processes. Programs started with it stop together with the
// cluster.
func (c *ControlPlane) Processes() *process.Supervisor { return c.processes }

// Port returns a free loopback port. It returns the same port every time that it is called with the same name.
func (c *ControlPlane) Port(name string) (int, error) { return c.ports.allocate(name) }

// path joins elements below the cluster's folder.
func (c *ControlPlane) path(elements ...string) string {
	return filepath.Join(append([]string{c.options.Dir}, elements...)...)
}

// Lifetime returns a context that ends when Stop or Kill begins. Watches on the cluster should use it.
func (c *ControlPlane) Lifetime() context.Context { return c.lifetime }

// Stop ends all processes in order and keeps the state.
func (c *ControlPlane) Stop() error {
	c.end()
	defer c.ports.release()
	return c.processes.Stop()
}

// Kill ends all processes at once. Use it only if the state will be deleted.
func (c *ControlPlane) Kill() error {
	c.end()
	defer c.ports.release()
	return c.processes.Kill()
}

// KillAPIServer kills the API server without a shutdown, as if it had crashed.
func (c *ControlPlane) KillAPIServer() error {
	p, ok := c.processes.Process(toolchain.APIServer.Name)
	if !ok {
		return fmt.Errorf("control plane %q has no API server", c.options.Name)
	}
	p.Kill()
	return nil
}

// StartAPIServer restarts the API server after KillAPIServer and waits until it is ready.
func (c *ControlPlane) StartAPIServer(ctx context.Context) error { return c.startAPIServer(ctx) }

// checkReady returns nil if the API server reports that it is ready.
func (c *ControlPlane) checkReady(ctx context.Context) error {
	client, err := rest.HTTPClientFor(c.config)
	if err != nil {
		return err
	}
	return get(ctx, client, c.URL()+"/readyz")
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", request.URL, response.Status)
	}
	return nil
}
