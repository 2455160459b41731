package app

import (
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// connection is a client of a cluster, with what is known about the cluster.
type connection struct {
	client.WithWatch
	// config is the client configuration for the cluster's API server.
	config *rest.Config
	// context is the name of the cluster's context in the kubeconfig. flags are the command-line flags that select this
	// cluster; the plugin adds them to every command that it suggests to the user.
	context, flags string
	// namespace is the user's current namespace. explicit is true if the user chose it with a flag.
	namespace string
	explicit  bool
	// broker is true if the cluster serves the API group of the broker. member is true if it serves the API group of
	// agents.
	broker, member bool
	// store holds the journal, if this is the broker's cluster.
	store journal.Store
}

// connectSelected connects to the cluster that the flags select.
func (p *plugin) connectSelected() (*connection, error) {
	return openCluster(p.cluster, nil)
}

// connectTo connects to the cluster of another context in the same kubeconfig.
func (p *plugin) connectTo(context string) (*connection, error) {
	other := genericclioptions.NewConfigFlags(false)
	other.KubeConfig, other.Context, other.Namespace = p.cluster.KubeConfig, &context, p.cluster.Namespace
	c, err := openCluster(other, nil)
	if err != nil {
		return nil, fmt.Errorf("context %q: %w", context, err)
	}
	return c, nil
}

// openCluster connects to the cluster that the flags select, and passes the warnings of its API server to a handler; nil
// is client-go's default, which prints them.
func openCluster(flags *genericclioptions.ConfigFlags, warnings rest.WarningHandler) (*connection, error) {
	loader := flags.ToRawKubeConfigLoader()
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to ask: set KUBECONFIG, --kubeconfig or --context: %w", err)
	}
	config.QPS = -1 // no client-side limit: the API server limits its clients
	config.UserAgent = "kubectl-broker/" + version.String()
	config.WarningHandler = warnings
	c := &connection{config: config}
	if c.namespace, c.explicit, err = loader.Namespace(); err != nil {
		return nil, fmt.Errorf("reading the namespace of the kubeconfig: %w", err)
	}
	if raw, err := loader.RawConfig(); err == nil {
		c.context = raw.CurrentContext
	}
	if flags.KubeConfig != nil && *flags.KubeConfig != "" {
		c.flags = "--kubeconfig " + *flags.KubeConfig
	}
	if flags.Context != nil && *flags.Context != "" {
		c.context = *flags.Context
		c.flags = strings.TrimSpace(c.flags + " --context " + c.context)
	}
	if err := c.discoverRoles(); err != nil {
		return nil, err
	}
	if c.store, err = journal.NewConfigMaps(config, c.journalNamespace()); err != nil {
		return nil, err
	}
	scheme, err := cluster.NewScheme(brokerv1alpha1.AddToScheme, agentv1alpha1.AddToScheme)
	if err != nil {
		return nil, err
	}
	c.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme, Mapper: newMapper(scheme)})
	return c, err
}

// discoverRoles finds out whether the cluster is a broker's cluster, a member, or both. It returns an error if an API
// group is served only in versions that this program does not know. Otherwise, commands would show only a part of the
// objects.
func (c *connection) discoverRoles() error {
	published, err := discovery.NewDiscoveryClientForConfig(c.config)
	if err != nil {
		return err
	}
	groups, err := published.ServerGroups()
	if err != nil {
		return fmt.Errorf("%s does not answer: %w", c.describeRoles(), err)
	}
	if c.broker, err = servesVersion(groups, brokerv1alpha1.GroupVersion); err != nil {
		return fmt.Errorf("%s: %w", c.describeRoles(), err)
	}
	if c.member, err = servesVersion(groups, agentv1alpha1.GroupVersion); err != nil {
		return fmt.Errorf("%s: %w", c.describeRoles(), err)
	}
	if !c.broker && !c.member {
		return fmt.Errorf("%s has neither a broker nor an agent, because it serves neither %s nor %s: choose another --context",
			c.describeRoles(), brokerv1alpha1.GroupVersion, agentv1alpha1.GroupVersion)
	}
	return nil
}

func (c *connection) describeRoles() string {
	if c.context == "" {
		return "the cluster at " + c.config.Host
	}
	return fmt.Sprintf("the cluster of context %q", c.context)
}

// servesVersion reports whether a cluster serves a version of an API group. It returns an error if the cluster serves
// only other versions of the group.
func servesVersion(groups *metav1.APIGroupList, want schema.GroupVersion) (bool, error) {
	at := slices.IndexFunc(groups.Groups, func(g metav1.APIGroup) bool { return g.Name == want.Group })
	if at < 0 {
		return false, nil
	}
	var versions []string
	for _, v := range groups.Groups[at].Versions {
		versions = append(versions, v.Version)
	}
	if !slices.Contains(versions, want.Version) {
		return false, fmt.Errorf("it serves %s in %s, and this program (%s) knows %s: install the version of kubectl broker that belongs to the installed release",
			want.Group, strings.Join(versions, ", "), version.String(), want.Version)
	}
	return true, nil
}

// newMapper returns a RESTMapper for the kinds in the scheme. It is built from a fixed list, which saves calls of the
// discovery API.
func newMapper(scheme *runtime.Scheme) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(nil)
	cluster := []string{"BrokerConfig", "LendingPolicy", "Node", "Namespace", "CustomResourceDefinition"}
	for kind := range scheme.AllKnownTypes() {
		scope := meta.RESTScopeNamespace
		if slices.Contains(cluster, kind.Kind) {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(kind, scope)
	}
	return mapper
}

// suggest returns a command of this program with the flags that select the cluster.
func (c *connection) suggest(command string) string {
	return "kubectl broker " + strings.TrimSpace(c.flags+" "+command)
}

// isDenied reports whether the API server refused a request because the user lacks the rights.
func isDenied(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) }
