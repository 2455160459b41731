package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
)

const (
	// kindsAdvice is what to do where kinds are missing or old.
	kindsAdvice = "install the kinds of this version: helm upgrade with crds.enabled=true, or kubectl apply --server-side -f charts/agent/files/crds"
	// identityAdvice is what to do where the agent has no certificate.
	identityAdvice = "enrol the cluster: broker enrol CLUSTER-ID in the broker's cluster prints what to run here"

	// brokerURLsFile stands beside the certificate of an enrolled agent: the broker's
	// addresses, one a line.
	brokerURLsFile = "broker-urls"
)

// checkOptions are what an installation is looked at by.
type checkOptions struct {
	*options
	name      string
	namespace string
}

func checkCommand() *cobra.Command {
	o := &checkOptions{options: defaults(), namespace: cluster.Namespace()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Say what of this installation is healthy, what is not and what to do.",
		Long: `Looks at an agent's installation and changes nothing: API server, kinds, configuration
file, identity, broker, Liqo, policies, Advertisement, certificates and webhooks. It takes the flags
of the agent it looks at, runs as well in its pod as from elsewhere with
--kubeconfig, and exits with 1 if something does not work. The chart runs it for
helm test.`,
		Example: `  agent check --namespace=liqo-resource-broker --name=agent-liqo-resource-broker-agent \
    --broker-cert-path=/etc/agent/tls`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         checkup.Body(newScheme, o.checks),
	}
	o.bind(cmd.Flags())
	cmd.Flags().StringVar(&o.namespace, "namespace", o.namespace, "namespace of the agent; POD_NAMESPACE if set")
	cmd.Flags().StringVar(&o.name, "name", "", "what the release's objects are named: policies and webhooks are looked at by it, not at all if unset")
	return cmd
}

func (o *checkOptions) checks(config *rest.Config, c client.Client) ([]checkup.Check, error) {
	published, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	look := func(subject string, f func(context.Context, client.Reader) checkup.Finding) checkup.Check {
		return checkup.Check{Subject: subject, Look: func(ctx context.Context) checkup.Finding { return f(ctx, c) }}
	}
	checks := []checkup.Check{
		checkup.APIServer(published),
		checkup.Kinds(published, agentv1alpha1.GroupVersion, kindsAdvice,
			&agentv1alpha1.ResourceRequest{}, &agentv1alpha1.Advertisement{},
			&agentv1alpha1.ReservationInstruction{}, &agentv1alpha1.ProviderInstruction{}),
		look("configuration", o.checkConfiguration),
		look("identity", o.checkIdentity),
		look("broker", o.checkBroker),
		{Subject: "Liqo", Look: func(ctx context.Context) checkup.Finding { return o.checkLiqo(ctx, published, c) }},
		look("policies", o.checkPolicies),
		look("advertisement", o.checkAdvertisement),
		checkup.Certificates(c, o.namespace),
		checkup.Webhooks(c, o.name, time.Now),
	}
	if o.peeringMode != peeringNone {
		checks = append(checks, checkup.MutatingWebhooks(c, o.name, time.Now))
	}
	return checks, nil
}

// checkConfiguration reads the file as the agent would.
func (o *checkOptions) checkConfiguration(ctx context.Context, _ client.Reader) checkup.Finding {
	if o.configFile == "" {
		return checkup.Skip("--config is not given")
	}
	c, err := configuration.Read(o.configFile)
	if err != nil {
		return checkup.Fail("correct it; what it said before stays in force until the agent is started anew", "%v", err)
	}
	switch {
	case o.cost() != nil:
		return checkup.Found("%s can be put in force; prices are those of flags", o.configFile)
	case c.PriceLabels != nil:
		return checkup.Found("%s can be put in force; prices are those of the labels %s of nodes, condition Priced of the Advertisement says how they are",
			o.configFile, strings.Join(slices.Sorted(maps.Values(c.PriceLabels)), ", "))
	case c.OpenCost != "":
		nodes, err := pricing.Ask(ctx, c.OpenCost)
		if err != nil {
			return checkup.Warn("correct prices.openCost.url, and let the agent reach it: networkPolicy.extraEgress in the chart's values",
				"%s can be put in force, but OpenCost at %s says no prices: %v", o.configFile, c.OpenCost, err)
		}
		return checkup.Found("%s can be put in force; OpenCost at %s says the prices of %d nodes", o.configFile, c.OpenCost, nodes)
	}
	return checkup.Found("%s can be put in force", o.configFile)
}

func (o *checkOptions) checkIdentity(context.Context, client.Reader) checkup.Finding {
	if o.certPath == "" {
		return checkup.Skip("--broker-cert-path is not given")
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return checkup.Fail(identityAdvice, "%v", err)
	}
	id, err := files.ClusterID()
	if err != nil {
		return checkup.Fail(identityAdvice, "%v", err)
	}
	if o.clusterID != "" && o.clusterID != id {
		return checkup.Fail("make them agree", "--cluster-id is %q, the certificate speaks for %q", o.clusterID, id)
	}
	credentials, err := files.Current()
	if err != nil {
		return checkup.Fail(identityAdvice, "%v", err)
	}
	found := checkup.Validity(credentials.Certificate.Leaf, time.Now())
	found.Message = fmt.Sprintf("the certificate of cluster %q %s", id, found.Message)
	return found
}

func (o *checkOptions) checkBroker(ctx context.Context, _ client.Reader) checkup.Finding {
	broker, err := connect(o.options)
	if errors.Is(err, errNoBroker) {
		return checkup.Skip("%v", err)
	}
	if err != nil {
		return checkup.Fail(identityAdvice, "%v", err)
	}
	defer broker.Close() //nolint:errcheck // nothing is left to do with it
	pong, err := broker.Ping(ctx)
	if err != nil {
		return checkup.Fail("if it does not answer, look at the network between; if it refuses this cluster, at deniedClusters and admission of its BrokerConfig", "%v", err)
	}
	return answered(pong, version.String())
}

// answered is the finding about a broker that an agent of a version asked who it is.
func answered(pong *v1.Pong, agent string) checkup.Finding {
	if skew := (version.Skew{Agent: v1.Minor, Broker: int(pong.ApiMinor)}); !skew.Fits() {
		return checkup.Fail(skew.Advice(), "answers; %s: they may misunderstand each other", skew)
	}
	if pong.Version != agent {
		return checkup.Warn("upgrade the broker first, then the agents; versions beside each other are meant to be",
			"answers; it is of version %s, this agent of %s", pong.Version, agent)
	}
	return checkup.Found("answers; version %s", pong.Version)
}

var errNoBroker = errors.New("neither flags nor the certificate's folder tell where the broker is")

// connect to the broker as the agent does.
func connect(o *options) (*httptransport.Transport, error) {
	if o.brokerKubeconfig != "" {
		return o.connect(nil)
	}
	if len(o.brokerURLs) == 0 && o.certPath != "" {
		text, err := os.ReadFile(filepath.Join(o.certPath, brokerURLsFile))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		o.brokerURLs = strings.Fields(string(text))
	}
	if len(o.brokerURLs) == 0 || o.certPath == "" {
		return nil, errNoBroker
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return nil, err
	}
	return o.connect(files)
}

func (o *checkOptions) checkLiqo(ctx context.Context, published discovery.DiscoveryInterface, c client.Reader) checkup.Finding {
	if o.peeringMode == peeringNone {
		return checkup.Skip("--peering-mode=none: nobody peers")
	}
	seen, err := installation.ObserveInstallation(ctx, published.RESTClient(), c, o.liqoNamespace)
	if err != nil {
		return checkup.Fail("", "%v", err)
	}
	verdict := seen.Judge()
	if !seen.Served {
		return checkup.Fail(verdict.Advice, "%s", verdict.Message)
	}
	ids := &corev1.ConfigMap{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: o.liqoNamespace, Name: liqoClusterIDConfigMap}, ids); err != nil {
		return checkup.Fail("is Liqo in another namespace? Set liqo.namespace", "its cluster ID cannot be read: %v", err)
	}
	id := ids.Data[liqoClusterIDKey]
	if certified := o.certifiedID(); certified != "" && certified != id {
		return checkup.Fail("enrol with Liqo's ID, or reinstall Liqo with discovery.config.clusterID="+certified,
			"its cluster ID is %q, the agent's certificate speaks for %q", id, certified)
	}
	return judged(id, verdict)
}

// judged is the finding about Liqo of a cluster ID. What lends more than was reserved
// works, and so may what nobody has tested; what cannot be read is no fault.
func judged(id string, verdict installation.Verdict) checkup.Finding {
	switch verdict.Reason {
	case agentv1alpha1.ReasonLiqoReady, agentv1alpha1.ReasonLiqoHidden:
		return checkup.Found("cluster ID %q; %s", id, verdict.Message)
	case agentv1alpha1.ReasonLimitsNotEnforced, agentv1alpha1.ReasonLiqoVersionUntested:
		return checkup.Warn(verdict.Advice, "cluster ID %q; %s", id, verdict.Message)
	}
	return checkup.Fail(verdict.Advice, "cluster ID %q; %s", id, verdict.Message)
}

// certifiedID is the cluster that the certificate speaks for, empty if there is none.
func (o *checkOptions) certifiedID() string {
	if o.certPath == "" {
		return ""
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return ""
	}
	id, err := files.ClusterID()
	if err != nil {
		return ""
	}
	return id
}

// checkPolicies looks whether what a peer may write is limited, and what the agent
// may.
func (o *checkOptions) checkPolicies(ctx context.Context, c client.Reader) checkup.Finding {
	if o.name == "" {
		return checkup.Skip("--name is not given")
	}
	names := []string{o.name}
	if o.peeringMode != peeringNone {
		names = append(names, o.name+"-peers", o.name+"-slices")
	}
	for _, name := range names {
		for _, obj := range []client.Object{
			&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
		} {
			err := c.Get(ctx, client.ObjectKey{Name: name}, obj)
			switch {
			case apierrors.IsNotFound(err):
				return checkup.Warn("set guard.enabled=true in the chart", "%q is missing: a peer may take more than it reserved", name)
			case apierrors.IsForbidden(err):
				return checkup.Skip("this account lacks the permission: %v", err)
			case err != nil:
				return checkup.Fail("", "%v", err)
			}
		}
	}
	return checkup.Found("in force: %s", strings.Join(names, ", "))
}

func (o *checkOptions) checkAdvertisement(ctx context.Context, c client.Reader) checkup.Finding {
	adv := &agentv1alpha1.Advertisement{}
	err := c.Get(ctx, client.ObjectKey{Namespace: o.advertisementNamespace, Name: o.advertisementName}, adv)
	if err != nil {
		return checkup.Fail("look at the agent's log: it makes the Advertisement when it starts", "%v", err)
	}
	ready := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionReady)
	if ready == nil || ready.Status != "True" {
		message := "the agent has not written it yet"
		if ready != nil {
			message = ready.Message
		}
		return checkup.Fail("nothing is lent until it is published: see broker and identity above", "%s", message)
	}
	return checkup.Found("published, %s cpu and %s memory are free", adv.Spec.Resources.Available.Cpu(), adv.Spec.Resources.Available.Memory())
}
