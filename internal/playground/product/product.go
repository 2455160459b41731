// Package product runs the broker and the agents in the playground's clusters as an
// installation would: with the shipped manifests and rights, tokens of their own
// ServiceAccounts, and certificates from two CAs.
package product

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// Namespace of broker and agents in their clusters.
const Namespace = "liqo-resource-broker"

// Names of the ServiceAccounts, as in the shipped manifests.
const (
	brokerAccount = "liqo-resource-broker"
	agentAccount  = "liqo-resource-broker-agent"
)

// trustDomain of the agents' certificates.
const trustDomain = "playground.local"

// Binaries are the programs of the product.
type Binaries struct{ Broker, Agent string }

// Price is what a member asks for its capacity.
type Price struct {
	CPU, Memory, GPU, Currency string
}

// Member is a cluster that an agent runs in.
type Member struct {
	*controlplane.ControlPlane
	Region, Zone string
	Price        Price
}

// Options of a Product.
type Options struct {
	// Dir keeps CAs and certificates.
	Dir      string
	Broker   *controlplane.ControlPlane
	Members  []Member
	Binaries Binaries
	// Env is added to the environment of the broker ("broker") and the agents
	// (by cluster ID).
	Env map[string][]string
	// Backoff is the longest pause before a process that crashed is started again;
	// 5 s if zero.
	Backoff time.Duration
}

// Product is a running broker and its agents.
type Product struct {
	options Options
	servers *pki.Authority
	agents  *pki.Authority
	url     string
	running map[string]*process.Process
	// kubeconfigs are the files that the processes run with.
	kubeconfigs map[string]string
}

// Start installs and runs broker and agents, and returns when all are ready.
func Start(ctx context.Context, o Options) (*Product, error) {
	p := &Product{options: o, running: map[string]*process.Process{}, kubeconfigs: map[string]string{}}
	p.options.Env = maps.Clone(o.Env)
	if p.options.Env == nil {
		p.options.Env = map[string][]string{}
	}
	var err error
	if p.servers, err = authority(filepath.Join(o.Dir, "servers-ca"), "playground servers"); err != nil {
		return nil, err
	}
	if p.agents, err = authority(filepath.Join(o.Dir, "agents-ca"), "playground agents"); err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.Go(func() error { return install(groupCtx, o.Broker, charts.Broker(), brokerAccount) })
	for _, m := range o.Members {
		group.Go(func() error { return p.installAgent(groupCtx, m) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	if err := p.startBroker(ctx); err != nil {
		return nil, err
	}
	for _, m := range o.Members {
		if err := p.startAgent(ctx, m); err != nil {
			return nil, err
		}
	}
	for _, m := range o.Members {
		if err := p.awaitReady(ctx, m.Name(), m.ControlPlane); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// URL is where agents reach the broker.
func (p *Product) URL() string { return p.url }

// Process of the broker ("broker") or of a member's agent (by cluster ID).
func (p *Product) Process(name string) *process.Process { return p.running[name] }

// Restart stops the broker ("broker") or a member's agent (by cluster ID), starts it
// with another environment and returns when it is ready.
func (p *Product) Restart(ctx context.Context, name string, env ...string) error {
	if p.running[name] == nil {
		return fmt.Errorf("the product has no process %q", name)
	}
	p.running[name].Stop()
	p.options.Env[name] = env
	if name == "broker" {
		return p.startBroker(ctx)
	}
	for _, m := range p.options.Members {
		if m.Name() != name {
			continue
		}
		if err := p.startAgent(ctx, m); err != nil {
			return err
		}
		return p.awaitReady(ctx, name, m.ControlPlane)
	}
	return nil
}

// Kubeconfig is the file with the rights that the broker ("broker") or a member's
// agent (by cluster ID) runs with.
func (p *Product) Kubeconfig(name string) string { return p.kubeconfigs[name] }

func authority(dir, name string) (*pki.Authority, error) {
	if _, err := os.Stat(dir); err == nil {
		return pki.LoadAuthority(dir, time.Now())
	}
	a, err := pki.NewAuthority(name, time.Now())
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return a, a.Save(dir)
}

func install(ctx context.Context, c *controlplane.ControlPlane, files fs.FS, name string) error {
	objects, err := chart.ForProcess(files, name, Namespace)
	if err != nil {
		return err
	}
	objects = append(objects, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": Namespace},
	}})
	cl, err := client.New(c.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	if err := manifest.Install(ctx, cl, objects); err != nil {
		return fmt.Errorf("installing the product in %s: %w", c.Name(), err)
	}
	return nil
}

// installAgent also writes the cluster's prices where its operator would: into the
// Advertisement.
func (p *Product) installAgent(ctx context.Context, m Member) error {
	if err := install(ctx, m.ControlPlane, charts.Agent(), agentAccount); err != nil {
		return err
	}
	if m.Price.Currency == "" {
		return nil
	}
	cost := map[string]any{"cpuCost": m.Price.CPU, "memoryCost": m.Price.Memory, "currency": m.Price.Currency}
	if m.Price.GPU != "" {
		cost["resourceCosts"] = map[string]any{"nvidia.com/gpu": m.Price.GPU}
	}
	advertisement := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "liqo.io/v1alpha1", "kind": "Advertisement",
		"metadata": map[string]any{"name": "cluster-advertisement", "namespace": "default"},
		"spec": map[string]any{
			"clusterID": m.Name(), "resources": map[string]any{"capacity": map[string]any{}}, "cost": cost,
		},
	}}
	cl, err := client.New(m.RESTConfig(), client.Options{})
	if err != nil {
		return err
	}
	return client.IgnoreAlreadyExists(cl.Create(ctx, advertisement))
}

func (p *Product) startBroker(ctx context.Context) error {
	c := p.options.Broker
	pair, err := p.servers.IssueServer([]string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	dir := filepath.Join(p.options.Dir, "broker")
	if err := saveCertificates(dir, pair, p.servers, p.agents); err != nil {
		return err
	}
	listen, err := c.Port("broker")
	if err != nil {
		return err
	}
	p.url = fmt.Sprintf("https://127.0.0.1:%d", listen)
	err = p.run(ctx, "broker", c, p.options.Binaries.Broker, brokerAccount,
		fmt.Sprintf("--bind-address=127.0.0.1:%d", listen), "--cert-path="+dir, "--namespace="+Namespace)
	if err != nil {
		return err
	}
	return p.awaitReady(ctx, "broker", c)
}

func (p *Product) startAgent(ctx context.Context, m Member) error {
	pair, err := p.agents.IssueClient(m.Name(), trustDomain)
	if err != nil {
		return err
	}
	dir := filepath.Join(p.options.Dir, m.Name())
	if err := saveCertificates(dir, pair, p.servers, p.agents); err != nil {
		return err
	}
	return p.run(ctx, m.Name(), m.ControlPlane, p.options.Binaries.Agent, agentAccount,
		"--broker-url="+p.url, "--broker-cert-path="+dir, "--cluster-id="+m.Name(),
		"--endpoint-url="+m.ControlPlane.URL(), "--region="+m.Region, "--zone="+m.Zone)
}

func saveCertificates(dir string, pair pki.KeyPair, servers, agents *pki.Authority) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return pair.Save(dir, servers.CertPEM(), agents.CertPEM())
}

// run starts a program of the product with the rights of its ServiceAccount.
func (p *Product) run(ctx context.Context, name string, c *controlplane.ControlPlane, path, account string, args ...string) error {
	kubeconfig, err := c.ServiceAccountKubeconfig(ctx, Namespace, account)
	if err != nil {
		return err
	}
	health, err := c.Port(name + "-health")
	if err != nil {
		return err
	}
	running, err := c.Processes().Start(process.Spec{
		Name: processName(name), Path: path, Layer: process.Controller, Restart: true, Backoff: p.options.Backoff, Env: p.options.Env[name],
		Args: append(args, "--kubeconfig="+kubeconfig, fmt.Sprintf("--health-probe-bind-address=127.0.0.1:%d", health),
			"--metrics-bind-address=0", "--zap-encoder=console", "--zap-time-encoding=iso8601"),
	})
	if err != nil {
		return err
	}
	p.running[name], p.kubeconfigs[name] = running, kubeconfig
	return nil
}

func processName(name string) string {
	if name == "broker" {
		return "broker"
	}
	return "agent"
}

// starting is how long broker and agents may take on a busy machine.
const starting = 60 * time.Second

func (p *Product) awaitReady(ctx context.Context, name string, c *controlplane.ControlPlane) error {
	health, err := c.Port(name + "-health")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, starting)
	defer cancel()
	return p.running[name].Await(ctx, process.Answers(fmt.Sprintf("http://127.0.0.1:%d/readyz", health)))
}
