package clusters

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// BrokerCluster is the name of the broker's cluster.
const BrokerCluster = "broker"

// issueTimeout is how long cert-manager may take to issue a certificate on a busy machine.
const issueTimeout = time.Minute

// Environment is a set of clusters in which the product runs.
type Environment struct {
	*e2e.Environment

	settings *Settings
	clusters map[string]*Cluster

	// mu guards the following field.
	mu sync.Mutex
	// identities maps a cluster ID to the chart values with which the member's agent gets its identity.
	identities map[string]values
}

// Cluster returns the cluster with an ID. The ID of the broker's cluster is BrokerCluster. It panics if there is none.
func (e *Environment) Cluster(name string) *Cluster {
	c, ok := e.clusters[name]
	if !ok {
		panic(fmt.Sprintf("the environment has no cluster %q", name))
	}
	return c
}

// Up installs what is missing, and returns when the broker and the agents are ready. It may be called again, for
// example with another version.
func Up(ctx context.Context, s Settings) (*Environment, error) {
	if s.Progress == nil {
		s.Progress = progress.Discard
	}
	if err := s.tools.Ensure(ctx, toolchain.Helm, toolchain.Kubectl); err != nil {
		return nil, err
	}
	e, err := connect(ctx, &s)
	if err != nil {
		return nil, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for name, c := range e.clusters {
		group.Go(func() error {
			defer s.Progress.Begin(name + ": cert-manager and Liqo")()
			if err := c.installCertManager(groupCtx); err != nil || name == BrokerCluster {
				return err
			}
			return c.installLiqo(groupCtx)
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return e, e.Install(ctx, s.Version, nil)
}

// Install installs or upgrades the broker, and then the agents. It adds the values in more to the values of every
// release.
func (e *Environment) Install(ctx context.Context, v Version, more map[string]any) error {
	end := e.settings.Progress.Begin("broker")
	if err := e.InstallBroker(ctx, v, more); err != nil {
		return err
	}
	end()
	return e.eachMember(func(id string) error {
		defer e.settings.Progress.Begin(id + ": agent")()
		return e.InstallAgent(ctx, id, v, more)
	})
}

// eachMember calls do for all members concurrently.
func (e *Environment) eachMember(do func(id string) error) error {
	var group errgroup.Group
	for id := range e.Members {
		group.Go(func() error { return do(id) })
	}
	return group.Wait()
}

func connect(ctx context.Context, s *Settings) (*Environment, error) {
	e := &Environment{
		Environment: &e2e.Environment{Members: map[string]*e2e.Cluster{}, BrokerNamespace: Namespace, InstructionNamespace: "default"},
		settings:    s, clusters: map[string]*Cluster{}, identities: map[string]values{},
	}
	contexts := maps.Clone(s.Members)
	contexts[BrokerCluster] = s.Broker
	var mu sync.Mutex // guards e
	group, groupCtx := errgroup.WithContext(ctx)
	for name, context := range contexts {
		group.Go(func() error {
			c, err := s.cluster(groupCtx, name, context)
			if err != nil {
				return fmt.Errorf("context %q of %s: %w", context, s.Kubeconfig, err)
			}
			mu.Lock()
			defer mu.Unlock()
			e.clusters[name] = c
			if name == BrokerCluster {
				e.Broker = c.Cluster
			} else {
				e.Members[name] = c.Cluster
			}
			return nil
		})
	}
	return e, group.Wait()
}

func (s *Settings) cluster(ctx context.Context, name, context string) (*Cluster, error) {
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: s.Kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	if err != nil {
		return nil, err
	}
	log := fmt.Sprintf("kubectl --context %s -n %s logs deployment/%s", context, Namespace, agentName)
	if name == BrokerCluster {
		log = fmt.Sprintf("kubectl --context %s -n %s logs deployment/%s", context, Namespace, brokerName)
	}
	c, err := e2e.NewCluster(name, config, log)
	if err != nil {
		return nil, err
	}
	address, err := nodeAddress(ctx, c)
	return &Cluster{Cluster: c, Address: address, settings: s, context: context}, err
}

// nodeAddress returns the address of the cluster's first real node. The other clusters can reach this address.
func nodeAddress(ctx context.Context, c *e2e.Cluster) (string, error) {
	nodes := &corev1.NodeList{}
	if err := c.List(ctx, nodes); err != nil {
		return "", err
	}
	for _, node := range nodes.Items {
		for _, address := range node.Status.Addresses {
			if address.Type == corev1.NodeInternalIP && node.Labels["liqo.io/type"] == "" {
				return address.Address, nil
			}
		}
	}
	return "", fmt.Errorf("none of %d nodes has an internal address", len(nodes.Items))
}
