// Package product installs the broker and the agents in the playground's clusters. It uses their own charts, and
// certificates from cert-manager.
package product

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
)

// Namespace is the namespace of broker and agents in their clusters.
const Namespace = "liqo-resource-broker"

// AgentUser is the user name of the agent at the API server of its cluster.
const AgentUser = "system:serviceaccount:" + Namespace + ":" + agentName

// Names of the releases. They are also the prefixes of the names of the releases' objects.
const (
	brokerName = "broker"
	agentName  = "agent"
)

// Binaries are the paths of the product's programs.
type Binaries struct{ Broker, Agent string }

// Member is a cluster in which an agent runs.
type Member struct {
	*controlplane.ControlPlane
	Region, Zone string
	Price        Price
	// Carried is true if the cluster does not enrol: its administrator copies the certificate into the cluster.
	Carried bool
}

// Options are the options of a Product.
type Options struct {
	Broker   *controlplane.ControlPlane
	Members  []Member
	Binaries Binaries
	// Backoff is the longest pause before a crashed process is restarted. Default: 5 s.
	Backoff time.Duration
}

// Product is a running broker and its agents.
type Product struct {
	options Options
	broker  client.Client
	// releases maps "broker" to the broker's release, and a cluster ID to the release of that cluster's agent.
	releases map[string]*release.Release
	// values maps the same keys to the current values of the releases.
	values map[string]map[string]any
}

// Start installs the broker and the agents, and runs them. It returns when all of them are ready.
func Start(ctx context.Context, o Options) (*Product, error) {
	p := &Product{options: o, releases: map[string]*release.Release{}, values: map[string]map[string]any{}}
	var err error
	if p.broker, err = client.New(o.Broker.RESTConfig(), client.Options{}); err != nil {
		return nil, err
	}
	p.releases[brokerName], err = release.New(release.Options{
		Cluster: o.Broker, Chart: charts.Broker(), Name: brokerName, Namespace: Namespace, Backoff: o.Backoff,
		Programs: ProgramsOf(o.Binaries.Broker),
	})
	if err != nil {
		return nil, err
	}
	for _, m := range o.Members {
		p.releases[m.Name()], err = release.New(release.Options{
			Cluster: m.ControlPlane, Chart: charts.Agent(), Name: agentName, Namespace: Namespace, Backoff: o.Backoff,
			Programs: ProgramsOf(o.Binaries.Agent),
		})
		if err != nil {
			return nil, err
		}
	}
	return p, p.Install(ctx)
}

// ProgramsOf returns one program for all containers of the broker's or the agent's chart: those of its Deployment,
// its hooks and its test.
func ProgramsOf(path string) map[string]release.Program {
	out := map[string]release.Program{}
	for _, container := range []string{"broker", "agent", "check", "configure", "uninstall"} {
		out[container] = release.Program{Path: path}
	}
	return out
}

// Install installs the broker, and then all agents at the same time. It upgrades releases that are installed already.
// It returns when all are ready and the broker knows the members' prices.
func (p *Product) Install(ctx context.Context) error {
	values, err := p.brokerValues()
	if err != nil {
		return err
	}
	if err := p.Upgrade(ctx, brokerName, values); err != nil {
		return err
	}
	var mu sync.Mutex // guards p.values
	group, ctx := errgroup.WithContext(ctx)
	for _, m := range p.options.Members {
		group.Go(func() error {
			values, err := p.credentialValues(ctx, m)
			if err != nil {
				return err
			}
			mu.Lock()
			p.values[m.Name()] = values
			mu.Unlock()
			if err := p.releases[m.Name()].Apply(ctx, values); err != nil {
				return err
			}
			return p.advertise(ctx, m)
		})
	}
	return group.Wait()
}

// advertise sets the prices of a member. It returns when the broker knows them. It does nothing for a member without
// prices.
func (p *Product) advertise(ctx context.Context, m Member) error {
	if m.Price.Currency == "" {
		return nil
	}
	if err := setPrice(ctx, m); err != nil {
		return fmt.Errorf("prices of %s: %w", m.Name(), err)
	}
	return p.awaitPriced(ctx, m.Name())
}

// URL returns the address at which agents reach the broker.
func (p *Product) URL() (string, error) { return p.brokerURL("rest") }

// Release returns a release. name is "broker", or the cluster ID of an agent.
func (p *Product) Release(name string) *release.Release { return p.releases[name] }

// Values returns a shallow copy of the values of a release. name is "broker", or the cluster ID of an agent.
func (p *Product) Values(name string) map[string]any { return maps.Clone(p.values[name]) }

// Upgrade applies a release with other values. It returns when the whole release is ready.
func (p *Product) Upgrade(ctx context.Context, name string, values map[string]any) error {
	p.values[name] = values
	return p.releases[name].Apply(ctx, values)
}

// Pods returns the pods of a release, nil if there is no such release. name is "broker", or the cluster ID of an agent.
func (p *Product) Pods(name string) []*release.Pod {
	r, ok := p.releases[name]
	if !ok {
		return nil
	}
	return r.Pods("")
}

// Process returns the process of the first pod of a release, nil if it has no pods. name is "broker", or the cluster ID
// of an agent.
func (p *Product) Process(name string) *process.Process {
	pods := p.Pods(name)
	if len(pods) == 0 {
		return nil
	}
	return pods[0].Process()
}

// Restart replaces the pods of a release one after the other, and adds env to their environment. It returns when they
// are ready. name is "broker", or the cluster ID of an agent.
func (p *Product) Restart(ctx context.Context, name string, env ...string) error {
	pods := p.Pods(name)
	if len(pods) == 0 {
		return fmt.Errorf("the product has no process %q", name)
	}
	for _, pod := range pods {
		if err := pod.Restart(ctx, env...); err != nil {
			return err
		}
	}
	return nil
}

// Kubeconfig returns the path of the file with the credentials of the first pod of a release, "" if the release has no
// pods. name is "broker", or the cluster ID of an agent.
func (p *Product) Kubeconfig(name string) string {
	pods := p.Pods(name)
	if len(pods) == 0 {
		return ""
	}
	return pods[0].Kubeconfig()
}

// memberOf returns the member with a cluster ID.
func (p *Product) memberOf(id string) (Member, error) {
	at := slices.IndexFunc(p.options.Members, func(m Member) bool { return m.Name() == id })
	if at < 0 {
		return Member{}, fmt.Errorf("the product has no member %q", id)
	}
	return p.options.Members[at], nil
}
