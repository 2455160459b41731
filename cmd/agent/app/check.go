package app

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/checkup"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
	agentwebhooks "github.com/mehdiazizian/liqo-resource-broker/webhooks/agent"
)

const (
	// crdsAdvice is the remedy for missing or outdated CRDs.
	crdsAdvice = "install the CRDs of this version: helm upgrade with crds.enabled=true, or kubectl apply --server-side -f charts/agent/files/crds"
	// identityAdvice is the remedy for a missing certificate.
	identityAdvice = "enrol the cluster: run broker enrol CLUSTER-ID in the broker's cluster, and the command that it prints here"

	// offloadedLabel is "true" on namespaces that Liqo offloads: their DaemonSets may run at providers.
	offloadedLabel = "liqo.io/scheduling-enabled"

	// brokerURLsFile is a file in the folder with an enrolled agent's certificate. It contains the
	// addresses of the broker, one per line.
	brokerURLsFile = "broker-urls"
)

// checkOptions are the flags of agent check.
type checkOptions struct {
	*options
	name      string
	namespace string
	// pong is the broker's answer to the ping of checkBroker. It is nil if the broker did not
	// answer.
	pong *v1.Pong
}

func checkCommand() *cobra.Command {
	o := &checkOptions{options: defaultOptions(), namespace: cluster.Namespace()}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check this installation, and print the remedy for each problem.",
		Long: `Checks an agent's installation without changing anything: API server, CRDs,
configuration file, identity, broker, the agent itself, Liqo, policies, Advertisement,
certificates, webhooks and DaemonSets. It takes the flags of the checked agent, runs in its pod or
anywhere else with --kubeconfig, and exits with 1 if something does not work.
The chart runs it for helm test.`,
		Example: `  agent check --namespace=liqo-resource-broker --name=agent-liqo-resource-broker-agent \
    --broker-cert-path=/etc/agent/tls`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE:         checkup.Body(newScheme, o.buildChecks),
	}
	o.bindFlags(cmd.Flags())
	cmd.Flags().StringVar(&o.namespace, "namespace", o.namespace, "namespace of the agent; POD_NAMESPACE if set")
	cmd.Flags().StringVar(&o.name, "name", "", "name prefix of the release's objects; without it webhooks and policies are not checked")
	return cmd
}

func (o *checkOptions) buildChecks(config *rest.Config, c client.Client) ([]checkup.Check, error) {
	published, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	check := func(subject string, f func(context.Context, client.Reader) checkup.Finding) checkup.Check {
		return checkup.Check{Subject: subject, Look: func(ctx context.Context) checkup.Finding { return f(ctx, c) }}
	}
	checks := []checkup.Check{
		checkup.APIServer(published),
		checkup.CRDs(published, agentv1alpha1.GroupVersion, crdsAdvice, c.Scheme()),
		check("configuration", o.checkConfiguration),
		check("identity", o.checkIdentity),
		check("broker", o.checkBroker),
		check("agent", o.checkAgent),
		{Subject: "Liqo", Look: func(ctx context.Context) checkup.Finding { return o.checkLiqo(ctx, published, c) }},
		check("policies", o.checkPolicies),
		check("advertisement", o.checkAdvertisement),
		checkup.Certificates(c, o.namespace),
		checkup.Webhooks(c, o.name, time.Now),
	}
	if o.peeringMode != peeringNone {
		checks = append(checks, checkup.MutatingWebhooks(c, o.name, time.Now), check("DaemonSets", checkDaemonSets))
	}
	return checks, nil
}

// checkConfiguration checks the configuration file as the agent does, and then the source of
// prices that it names.
func (o *checkOptions) checkConfiguration(ctx context.Context, _ client.Reader) checkup.Finding {
	if o.configFile == "" {
		return checkup.Skip("--config is not given")
	}
	c, err := configuration.Read(o.configFile)
	if err != nil {
		return checkup.Fail("correct the file; until the agent restarts, the last valid configuration stays in force", "%v", err)
	}
	switch {
	case c.PriceLabels != nil:
		return checkup.Found("%s is valid; node labels %s set the prices, see condition Priced of the Advertisement",
			o.configFile, strings.Join(slices.Sorted(maps.Values(c.PriceLabels)), ", "))
	case c.OpenCost != "":
		nodes, err := pricing.Ask(ctx, c.OpenCost)
		if err != nil {
			return checkup.Warn("correct prices.openCost.url, and allow the agent to reach it: networkPolicy.extraEgress in the chart's values",
				"%s is valid, but OpenCost at %s gives no prices: %v", o.configFile, c.OpenCost, err)
		}
		return checkup.Found("%s is valid; OpenCost at %s gives the prices of %d nodes", o.configFile, c.OpenCost, nodes)
	}
	return checkup.Found("%s is valid", o.configFile)
}

func (o *checkOptions) checkLiqo(ctx context.Context, published discovery.DiscoveryInterface, c client.Reader) checkup.Finding {
	if o.peeringMode == peeringNone {
		return checkup.Skip("--peering-mode=none: the agent does not peer, and only clusters that do not peer either can reserve here")
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
		return checkup.Fail("if Liqo is in another namespace, set liqo.namespace", "reading Liqo's cluster ID failed: %v", err)
	}
	id := ids.Data[liqoClusterIDKey]
	if certified := o.certifiedID(); certified != "" && certified != id {
		return checkup.Fail("enrol with Liqo's ID, or reinstall Liqo with discovery.config.clusterID="+certified,
			"Liqo's cluster ID is %q, the agent's certificate is for %q", id, certified)
	}
	found := liqoFinding(id, verdict)
	if found.Level == checkup.Failed {
		return found
	}
	neglected, err := installation.FindNeglected(ctx, c, time.Now())
	if err != nil {
		return checkup.Fail("", "%v", err)
	}
	if neglected != nil {
		return checkup.Fail("read the log of Liqo's controller manager, and delete its pod if it hangs: kubectl --namespace "+o.liqoNamespace+" rollout restart deployment liqo-controller-manager",
			"Liqo's controller manager has not processed %s since %s (it has no %s): it hangs, or cannot write", neglected.Object, neglected.Since.UTC().Format(time.RFC3339), neglected.Lacks)
	}
	return found
}

// liqoFinding turns a verdict about Liqo into a finding. Missing limits and an untested version
// are only warnings, because peering works. It is no problem if this account may not read Liqo's
// state.
func liqoFinding(id string, verdict installation.Verdict) checkup.Finding {
	switch verdict.Reason {
	case agentv1alpha1.ReasonLiqoReady, agentv1alpha1.ReasonLiqoHidden:
		return checkup.Found("cluster ID %q; %s", id, verdict.Message)
	case agentv1alpha1.ReasonLimitsNotEnforced, agentv1alpha1.ReasonLiqoVersionUntested:
		return checkup.Warn(verdict.Advice, "cluster ID %q; %s", id, verdict.Message)
	}
	return checkup.Fail(verdict.Advice, "cluster ID %q; %s", id, verdict.Message)
}

// certifiedID returns the cluster ID in the agent's certificate, or "" if there is no certificate.
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

// checkPolicies checks that the admission policies are in force which limit what peers and the agent may write.
func (o *checkOptions) checkPolicies(ctx context.Context, c client.Reader) checkup.Finding {
	if len(o.guardPolicies) == 0 {
		return checkup.Skip("--guard-policies is not given: copy it from the arguments of the agent's Deployment")
	}
	gap, err := findGap(ctx, c, o.guardPolicies)
	switch {
	case apierrors.IsForbidden(err):
		return checkup.Skip("this account lacks the permission: %v", err)
	case err != nil:
		return checkup.Fail("", "%v", err)
	case gap != "":
		return checkup.Warn("helm upgrade restores it", "%s: peers may do what it forbids, see docs/admission.md", gap)
	case !o.bindSlices && o.peeringMode != peeringNone:
		return checkup.Warn("set guard.enabled=true in the chart", "the policies for peers are off: they may do whatever Liqo's roles allow")
	}
	return checkup.Found("%d policies are in force", len(o.guardPolicies))
}

// checkDaemonSets names the DaemonSets whose pods are created on virtual nodes. The agent's webhook
// has not changed them yet, because their templates are older than the webhook.
func checkDaemonSets(ctx context.Context, c client.Reader) checkup.Finding {
	var sets appsv1.DaemonSetList
	var offloaded corev1.NamespaceList
	err := c.List(ctx, &sets)
	if err == nil {
		err = c.List(ctx, &offloaded, client.MatchingLabels{offloadedLabel: "true"})
	}
	switch {
	case apierrors.IsForbidden(err):
		return checkup.Skip("this account lacks the permission: %v", err)
	case err != nil:
		return checkup.Fail("", "%v", err)
	}
	var names []string
	for i := range sets.Items {
		ds := &sets.Items[i]
		mayRun := slices.ContainsFunc(offloaded.Items, func(ns corev1.Namespace) bool { return ns.Name == ds.Namespace })
		if !mayRun && agentwebhooks.MayUseVirtualNodes(ds) {
			names = append(names, ds.Namespace+"/"+ds.Name)
		}
	}
	if len(names) > 0 {
		return checkup.Warn("give their pods the node affinity liqo.io/type NotIn [virtual-node], or restart them with kubectl rollout restart while the agent's webhook runs, which adds it",
			"pods of %s tolerate every taint and are created on virtual nodes, where they never become ready: that blocks rolling updates", strings.Join(names, ", "))
	}
	return checkup.Found("none needlessly uses virtual nodes")
}

func (o *checkOptions) checkAdvertisement(ctx context.Context, c client.Reader) checkup.Finding {
	adv := &agentv1alpha1.Advertisement{}
	err := c.Get(ctx, client.ObjectKey{Namespace: o.advertisementNamespace, Name: o.advertisementName}, adv)
	if err != nil {
		return checkup.Fail("check the agent's log: the agent creates the Advertisement at its start", "%v", err)
	}
	ready := meta.FindStatusCondition(adv.Status.Conditions, agentv1alpha1.ConditionReady)
	if ready == nil || ready.Status != "True" {
		message := "the agent has not set its status yet"
		if ready != nil {
			message = ready.Message
		}
		return checkup.Fail("this cluster lends nothing until it is published: check broker and identity above", "%s", message)
	}
	return checkup.Found("published, %s cpu and %s memory are free", adv.Spec.Resources.Available.Cpu(), adv.Spec.Resources.Available.Memory())
}
