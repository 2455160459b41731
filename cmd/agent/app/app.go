// Package app builds the agent command from the parts in other packages.
package app

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/burstpolicy"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/capacitybuffer"
	enforcementcontroller "github.com/mehdiazizian/liqo-resource-broker/controllers/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/lendingpolicy"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/provisioningrequest"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/quote"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/reservationinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/resourcequota"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/resourcerequest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/kubeconfigs"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/metrics"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	kubernetestransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/kubernetes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/logging"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Command returns the agent's root command.
func Command() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Lend this cluster's free capacity, and use that of other clusters.",
		Long: `The agent runs in every member cluster. It advertises this cluster's free capacity
to the broker, forwards ResourceRequests, turns granted capacity into a virtual
node through Liqo, and provides capacity that other clusters were granted here.

It has no credentials of other clusters, except kubeconfigs of clusters without
an agent in --kubeconfigs-dir. --broker-cert-path is a folder with tls.crt and
tls.key (this cluster's certificate, common name = cluster ID), ca.crt (the CA
of the broker's certificate) and agents-ca.crt (the CA of the agents; ca.crt by
default). With --identity-secret the agent fills that folder itself: it enrols
the cluster at --enrolment-url, or with --broker-kubeconfig by its account
there, and renews the certificate.`,
		Example: `  agent --identity-secret=agent-identity --broker-cert-path=/var/run/agent/tls \
    --enrolment-url=https://broker.example.com:8444 \
    --enrolment-ca-hash=sha256:... --enrolment-token=@/etc/agent/token   # from broker enrol
  agent --broker-url=https://broker.example.com:8443 --broker-cert-path=/etc/agent/tls
  agent --broker-kubeconfig=/etc/agent/broker/kubeconfig --broker-namespace=mailbox-rome \
    --identity-secret=agent-identity --broker-cert-path=/var/run/agent/tls   # through the broker's API server
  agent --broker-url=... --broker-cert-path=... --peering-mode=none   # reserve, do not peer
  agent --broker-url=... --broker-cert-path=... --kubeconfigs-dir=/etc/agent/kubeconfigs`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Version:      version.String(),
		RunE:         func(cmd *cobra.Command, _ []string) error { return run(cmd.Context(), o) },
	}
	o.bindFlags(cmd.Flags())
	cmd.AddCommand(checkCommand(), uninstallCommand())
	return cmd
}

// agent holds the parts of the running agent that refer to each other.
type agent struct {
	*options
	mgr   ctrl.Manager
	log   logr.Logger
	files *pki.Files
	// keeper enrols this cluster and renews its certificate. It is nil without --identity-secret.
	keeper    *identity.Keeper
	transport *httptransport.Transport
	settings  *advertisement.FileSettings
	watcher   *capacity.Watcher
	outbox    *outbox.Outbox
	requests  *resourcerequest.Reconciler
	peering   *liqo.Peering
	// offloaded watches the pods of consumers. It is nil without peering.
	offloaded *enforcementcontroller.Pods
	// scout probes whether this cluster reaches the API servers of others. It is nil without
	// peering.
	scout *reach.Scout
	// rules restrict the addresses at which this cluster connects to providers.
	rules reach.Rules
	// withoutLiqo is true if the agent does not peer because Liqo was not installed when the agent
	// started.
	withoutLiqo bool
	// connects is true when the agent connects networks through Liqo.
	connects bool
	// durations measures handshakes and drains. It is nil without peering.
	durations *metrics.DurationMeter
	// steps makes spans of placements. It is nil without --otlp-endpoint.
	steps *tracing.Steps
	// journalID is the ID of the broker's journal, nil while it is unknown.
	journalID atomic.Pointer[string]
}

func run(ctx context.Context, o *options) error {
	log := logging.Start(&o.zap)
	if err := o.completeOptions(); err != nil {
		return err
	}
	config, err := cluster.Config()
	if err != nil {
		return err
	}
	a := &agent{options: o, log: log}
	a.settings = &advertisement.FileSettings{}
	if o.configFile != "" {
		if a.settings.File, err = configuration.Open(o.configFile, o.checkElastic, clock.RealClock{}, log.WithName("configuration")); err != nil {
			return err
		}
	}
	if err := o.initRights(ctx, config); err != nil {
		log.Error(err, "consumers that other tools peered cannot write here before this agent has enrolled")
	}
	if err := a.resolveSettings(ctx, config); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it waited for its certificate
		}
		return err
	}
	if a.mgr, err = newManager(config, o); err != nil {
		return err
	}
	if err := a.resolveNetworking(ctx, config); err != nil {
		return err
	}
	if err := a.addTracing(ctx); err != nil {
		return err
	}
	for _, add := range []func(*rest.Config) error{a.addTransport, a.addIdentity, a.addCapacity, a.addPeering, a.addOffloaded, a.addControllers, a.addEnforcement, a.addInbox, a.addChecks, a.addWebhooks, a.addStateMetrics} {
		if err := add(config); err != nil {
			return err
		}
	}
	shown := console.Options{Member: true, Name: cmp.Or(a.clusterName, a.clusterID), Used: a.usedAmounts, Now: time.Now, Log: log.WithName("console")}
	if err := a.console.AddTo(ctx, a.mgr, shown); err != nil {
		return err
	}
	log.Info("starting agent", "cluster", o.clusterID, "broker", a.transport.Addresses(), "peering", o.peeringMode, "networking", a.connects, "endpoint", o.endpointURL)
	defer a.transport.Close() //nolint:errcheck // it is not used any longer, so an error does not matter
	return a.mgr.Start(ctx)
}

// newScheme returns a scheme with the types that the agent reads and writes.
func newScheme() (*runtime.Scheme, error) {
	return cluster.NewScheme(agentv1alpha1.AddToScheme, brokerv1alpha1.AddToScheme, object.AddToScheme, autoscaling.AddToScheme)
}

func newManager(config *rest.Config, o *options) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	webhookServer, err := o.webhook.Server(time.Now)
	if err != nil {
		return nil, err
	}
	metricsOptions, err := o.metrics.Options()
	if err != nil {
		return nil, err
	}
	lock, err := o.newLock(config)
	if err != nil {
		return nil, err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		WebhookServer: webhookServer,
		Scheme:        scheme,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			ByObject: map[client.Object]cache.ByObject{
				&corev1.Node{}: {Label: liqo.VirtualNodes()}, &rbacv1.RoleBinding{}: {Label: guard.BindingsOfLiqo()},
			},
		},
		Metrics:                       metricsOptions,
		HealthProbeBindAddress:        o.healthAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaseName,
		LeaderElectionNamespace:       o.podNamespace, // if empty, the namespace of the agent's pod
		LeaderElectionReleaseOnCancel: true,
		// If lock is not nil, it replaces the lock that the three options above describe.
		LeaderElectionResourceLockInterface: lock,
		GracefulShutdownTimeout:             new(10 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return mgr, nil
}

// addTracing begins to make spans of placements, if they are wanted.
func (a *agent) addTracing(ctx context.Context) error {
	record, err := a.tracing.AddTo(ctx, a.mgr, programName, a.clusterID)
	if record == nil || err != nil {
		return err
	}
	a.steps = tracing.NewSteps(func() string { return ptr.Deref(a.journalID.Load(), "") }, record)
	return nil
}

func (a *agent) addTransport(*rest.Config) error {
	var err error
	if a.transport, err = a.newTransport(a.files); err != nil {
		return err
	}
	calls := metrics.NewCallMeter(time.Now, a.mgr.Elected())
	a.transport.WatchAttempts(calls.WatchAttempt)
	return metrics.Register(calls)
}

// newTransport creates the transport to the broker. It does not connect yet.
func (o *options) newTransport(files *pki.Files) (*httptransport.Transport, error) {
	if o.brokerKubeconfig == "" {
		return httptransport.New(httptransport.Options{URLs: o.brokerURLs, Files: files, UserAgent: userAgent()})
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.brokerKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--broker-kubeconfig: %w", err)
	}
	config.UserAgent = userAgent()
	// Client-side rate limits are off: the API server limits its callers, and the broker limits each
	// cluster.
	config.QPS = -1
	return kubernetestransport.New(kubernetestransport.Options{Config: config, Namespace: o.brokerNamespace})
}

// programName names this program to the broker and to collectors of traces.
const programName = version.Product + "-agent"

func userAgent() string { return programName + "/" + version.String() }

func (a *agent) addCapacity(config *rest.Config) error {
	// Use protobuf, because the agent may read thousands of pods, which takes several times as long
	// with JSON.
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	a.watcher = capacity.New(clientset, a.nodeLabels...).PlaceholdersIn(a.podNamespace)
	if file := a.settings.File; file != nil {
		pricer := pricing.New(a.watcher, clock.RealClock{}, a.log.WithName("pricing"))
		file.Follow(func(c *configuration.Configuration) {
			a.watcher.Lend(c.Nodes, a.offeredTaints(c.Taints), c.Offer.GroupLabels(), slices.Sorted(maps.Values(c.PriceLabels))...)
			pricer.Follow(c)
		})
		a.settings.Pricer = pricer
		if err := errors.Join(a.mgr.Add(pricer), a.mgr.Add(file)); err != nil {
			return err
		}
	}
	return a.mgr.Add(a.watcher)
}

func (a *agent) addPeering(*rest.Config) error {
	a.outbox = outbox.NewOutbox(clock.RealClock{})
	if err := a.mgr.Add(a.outbox); err != nil {
		return err
	}
	if a.peeringMode == peeringNone {
		return nil
	}
	a.rules = reach.RulesFor(a.endpointURL)
	a.scout = reach.New(a.endpointURL, clock.RealClock{})
	if err := a.mgr.Add(a.scout); err != nil {
		return err
	}
	if why := a.reclaimWarning(); why != "" {
		a.log.Info("WARNING: " + why)
	}
	a.durations = metrics.NewDurationMeter()
	if err := metrics.Register(a.durations.Handshakes, a.durations.Drains); err != nil {
		return err
	}
	options := liqo.Options{
		ClusterID: a.clusterID, InstructionNamespace: a.instructionNamespace, LiqoNamespace: a.liqoNamespace,
		Client: a.mgr.GetClient(), Reader: a.mgr.GetAPIReader(),
		Messenger: a.transport, Sign: a.signPayload, Verify: a.verifyEnvelope,
		Unaccepted: a.watcher.Unaccepted, Unplaced: a.watcher.Unplaced, Runs: a.watcher.Runs, CheckEndpoint: a.rules.CheckEndpoint, Proxies: a.allowedProxies,
		Outbox: a.outbox, Clock: clock.RealClock{}, Log: a.log.WithName("peering"),
		GuardElsewhere: a.guardElsewhere,
		ReclaimAfter:   a.reclaimTimeout, GiveUpAfter: a.giveUpTimeout, DrainTimeout: a.drainTimeout,
		ObserveStep: a.durations.ObserveStep,
	}
	if a.peeringMode == peeringKubeconfig {
		options.Remote = kubeconfigs.New(a.kubeconfigsDir, a.mgr.GetScheme()).ClientOf
	}
	if a.connects {
		options.GatewayService = corev1.ServiceType(a.gatewayServiceType)
	}
	a.peering = liqo.New(options)
	a.scout.Through(a.peering.Tunnel)
	return nil
}

// resolveNetworking decides whether the agent connects networks. With --networking=auto, it
// connects them if Liqo's networking module runs. If the agent may not read Liqo's Deployment, it
// does not connect networks, because it would wait for networks whose state it cannot see.
func (a *agent) resolveNetworking(ctx context.Context, config *rest.Config) error {
	a.connects = a.networking == networkingEnabled
	if a.networking != networkingAuto || a.peeringMode == peeringNone {
		return nil
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return err
	}
	seen, err := installation.ObserveInstallation(ctx, server.RESTClient(), a.mgr.GetAPIReader(), a.liqoNamespace)
	a.connects = seen.Networking
	return err
}

func (a *agent) signPayload(payload []byte) ([]byte, error) {
	credentials, err := a.files.Current()
	if err != nil {
		return nil, err
	}
	return pki.Sign(payload, credentials.Certificate)
}

func (a *agent) verifyEnvelope(envelope []byte) (string, []byte, error) {
	credentials, err := a.files.Current()
	if err != nil {
		return "", nil, err
	}
	return pki.Verify(envelope, credentials.AgentsCA, time.Now())
}

// receiptChecker returns a checker of the broker's receipts. It trusts the CAs of the broker's
// server certificate.
func (a *agent) receiptChecker() *receipt.Checker {
	roots := func() (*x509.CertPool, error) {
		credentials, err := a.files.Current()
		if err != nil {
			return nil, err
		}
		return credentials.ServerCA, nil
	}
	return &receipt.Checker{Roots: roots, ClusterID: a.clusterID}
}

func (a *agent) addControllers(config *rest.Config) error {
	advertises := advertisement.Options{
		ClusterID: a.clusterID, ClusterName: cmp.Or(a.clusterName, a.clusterID), EndpointURL: a.endpointURL, Settings: a.settings,
		Name: a.advertisementName, Namespace: a.advertisementNamespace,
		InstructionNamespace: a.instructionNamespace, Interval: a.advertisementInterval,
		Certificate: a.certificateCondition, Guarded: a.guardedCondition(), NoteJournal: func(id string) { a.journalID.Store(&id) },
		Clock: clock.RealClock{},
	}
	consumes := reservationinstruction.Options{
		Namespace: a.instructionNamespace, Peering: a.peering, Reporter: a.transport, Outbox: a.outbox, Clock: clock.RealClock{},
		ExpiryNotice: a.expiryNotice, Recorder: a.mgr.GetEventRecorder(version.Product), Steps: a.steps,
	}
	if a.scout != nil {
		advertises.Peers, consumes.Reach = a.scout, a.scout
		consumes.ObserveDrain = a.durations.ObserveDrain
	}
	liqo, err := a.liqoCondition(config)
	if err != nil {
		return err
	}
	advertises.Liqo = liqo
	err = advertisement.New(a.mgr.GetClient(), a.transport, a.watcher, a.mgr.GetEventRecorder(version.Product), advertises).SetupWithManager(a.mgr)
	if err != nil {
		return err
	}
	a.requests = resourcerequest.New(a.mgr.GetClient(), a.transport, a.mgr.GetEventRecorder(version.Product), resourcerequest.Options{
		ClusterID: a.clusterID, InstructionNamespace: a.instructionNamespace, Reader: a.mgr.GetAPIReader(),
		HideActors: a.actor == actorHidden, Receipts: a.receiptChecker(), Clock: clock.RealClock{},
	})
	if err := a.requests.SetupWithManager(a.mgr); err != nil {
		return err
	}
	err = quote.New(a.mgr.GetClient(), a.transport, quote.Options{ClusterID: a.clusterID, Reader: a.mgr.GetAPIReader(), Clock: clock.RealClock{}}).SetupWithManager(a.mgr)
	if err != nil {
		return err
	}
	if a.provisioningRequests {
		err := provisioningrequest.New(a.mgr.GetClient(), provisioningrequest.Options{
			Reader: a.mgr.GetAPIReader(), Recorder: a.mgr.GetEventRecorder(version.Product), Clock: clock.RealClock{},
		}).SetupWhenServed(a.mgr)
		if err != nil {
			return err
		}
	}
	if a.capacityBuffers {
		err := capacitybuffer.New(a.mgr.GetClient(), capacitybuffer.Options{
			Pods: a.watcher, Reader: a.mgr.GetAPIReader(), Recorder: a.mgr.GetEventRecorder(version.Product), Clock: clock.RealClock{},
		}).SetupWhenServed(a.mgr)
		if err != nil {
			return err
		}
	}
	if a.burstPolicies {
		err := burstpolicy.New(a.mgr.GetClient(), burstpolicy.Options{
			Pods: a.watcher, Reader: a.mgr.GetAPIReader(), Recorder: a.mgr.GetEventRecorder(version.Product), Clock: clock.RealClock{},
			Barred: []string{metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease, a.liqoNamespace, a.podNamespace},
		}).SetupWithManager(a.mgr)
		if err != nil {
			return err
		}
	}
	if err := resourcequota.SetupWithManager(a.mgr); err != nil {
		return err
	}
	if err := reservationinstruction.SetupWithManager(a.mgr, consumes); err != nil {
		return err
	}
	err = lendingpolicy.SetupWithManager(a.mgr, lendingpolicy.Options{InstructionNamespace: a.instructionNamespace, Clock: clock.RealClock{}})
	if err != nil {
		return err
	}
	return providerinstruction.SetupWithManager(a.mgr, providerinstruction.Options{
		Namespace: a.instructionNamespace, Admit: admission.New(a.mgr.GetClient(), a.watcher, a.instructionNamespace, a.settings.OfferRules, a.whyUnready(liqo)).Admit,
		Peering: a.peering, Place: a.settings.OwnPlace,
		RightsNamespace: a.podNamespace,
		Placeholders:    a.placeholderSettings(), ObjectLimits: a.objectLimits, BindSlices: a.bindSlices,
		Reporter: a.transport, Outbox: a.outbox, Recorder: a.mgr.GetEventRecorder(version.Product), Clock: clock.RealClock{}, Steps: a.steps,
	})
}

// liqoCondition returns the function that computes the condition LiqoReady. With
// --peering-mode=none, that function returns the condition PeeringSkipped instead.
func (a *agent) liqoCondition(config *rest.Config) (func(context.Context) *metav1.Condition, error) {
	if a.withoutLiqo {
		// If Liqo is installed later, the agent uses it only after a restart.
		missing := installation.Installation{}.Judge()
		return func(context.Context) *metav1.Condition { return &missing }, nil
	}
	if a.peeringMode == peeringNone {
		skipped := metav1.Condition{
			Type: agentv1alpha1.ConditionPeeringSkipped, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonPeeringSkipped,
			Message: "this agent runs with --peering-mode=none: only clusters that do not peer either can reserve here; set peeringMode=brokered to lend to others",
		}
		return func(context.Context) *metav1.Condition { return &skipped }, nil
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return installation.NewPreflight(server.RESTClient(), a.mgr.GetAPIReader(), a.mgr.GetClient(), a.liqoNamespace, clock.RealClock{}).Condition, nil
}

// whyUnready returns a function for the admission of placements. That function returns why this
// cluster takes no new placements, "" if it takes them.
func (a *agent) whyUnready(liqo func(context.Context) *metav1.Condition) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		adv := &agentv1alpha1.Advertisement{}
		key := client.ObjectKey{Namespace: a.advertisementNamespace, Name: a.advertisementName}
		if err := a.mgr.GetClient().Get(ctx, key, adv); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("read advertisement %q: %w", key, err)
		}
		return advertisement.WhyUnready(adv, liqo(ctx), time.Now()), nil
	}
}

func (a *agent) addInbox(*rest.Config) error {
	options := inbox.Options{
		Namespace: a.instructionNamespace, Interval: a.pollInterval, RefuseBrokerReservations: !a.acceptBrokerReservations,
		Hold: agentv1alpha1.Hold(a.hold), HideActors: a.actor == actorHidden, Receipts: a.receiptChecker(),
	}
	options.ClusterID, options.Reader, options.Look, options.Clock = a.clusterID, a.mgr.GetAPIReader(), a.requests.Look, clock.RealClock{}
	if err := a.mgr.Add(inbox.NewInstructions(a.mgr.GetClient(), a.transport, options)); err != nil {
		return err
	}
	if a.peering == nil {
		return nil
	}
	return a.mgr.Add(inbox.NewMessages(a.transport, a.peering, options))
}

// addStateMetrics registers the metrics that are read from objects at every scrape.
func (a *agent) addStateMetrics(*rest.Config) error {
	return metrics.Register(&metrics.StateCollector{
		Elected: a.mgr.Elected(), Reader: a.mgr.GetClient(), Namespace: a.instructionNamespace,
		Advertised:  client.ObjectKey{Namespace: a.advertisementNamespace, Name: a.advertisementName},
		UsedAmounts: a.usedAmounts,
	})
}

// usedAmounts returns what the pods of each placement request here, nil until all pods have been counted.
func (a *agent) usedAmounts() map[string]quantity.Amounts {
	select {
	case <-a.watcher.Synced():
		return a.watcher.Snapshot().Used
	default:
		return nil
	}
}

func (a *agent) addChecks(*rest.Config) error {
	if err := a.mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return a.mgr.AddReadyzCheck("ping", healthz.Ping)
}
