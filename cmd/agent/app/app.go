// Package app wires the agent from its parts.
package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/lendingpolicy"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/reservationinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/resourcequota"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/resourcerequest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/configuration"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/pricing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/reach"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	kubernetestransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/kubernetes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/logging"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
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

// agent holds the parts that this package wires together.
type agent struct {
	*options
	mgr   ctrl.Manager
	log   logr.Logger
	files *pki.Files
	// keeper is nil when the agent does not manage the certificate files itself.
	keeper    *identity.Keeper
	transport *httptransport.Transport
	settings  *settings
	watcher   *capacity.Watcher
	outbox    *outbox.Outbox
	requests  *resourcerequest.Reconciler
	peering   *liqo.Peering
	// offloaded is nil without peering.
	offloaded *offloaded
	// scout is nil without peering.
	scout *reach.Scout
	// rules restrict the provider addresses that this cluster connects to.
	rules reach.Rules
	// withoutLiqo is true when the agent does not peer because Liqo was missing at its start.
	withoutLiqo bool
	// connects is true when the agent connects networks through Liqo.
	connects bool
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
	if err := a.openSettings(); err != nil {
		return err
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
	for _, add := range []func(*rest.Config) error{a.addTransport, a.addIdentity, a.addCapacity, a.addPeering, a.addOffloaded, a.addControllers, a.addEnforcement, a.addInbox, a.addChecks, a.addWebhooks} {
		if err := add(config); err != nil {
			return err
		}
	}
	log.Info("starting agent", "cluster", o.clusterID, "broker", a.transport.Addresses(), "peering", o.peeringMode, "networking", a.connects, "endpoint", o.endpointURL)
	defer a.transport.Close() //nolint:errcheck // nothing is left to do with it
	return a.mgr.Start(ctx)
}

// newScheme registers the types that the agent reads and writes.
func newScheme() (*runtime.Scheme, error) {
	return cluster.NewScheme(agentv1alpha1.AddToScheme, brokerv1alpha1.AddToScheme, object.AddToScheme)
}

func newManager(config *rest.Config, o *options) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	webhookServer, err := o.webhook.Server()
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
		LeaderElectionNamespace:       o.podNamespace, // if empty, that of the pod it runs in
		LeaderElectionReleaseOnCancel: true,
		// The lock replaces the one that the three lines above would create, unless it is nil.
		LeaderElectionResourceLockInterface: lock,
		GracefulShutdownTimeout:             new(10 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return mgr, nil
}

func (a *agent) addTransport(*rest.Config) error {
	var err error
	a.transport, err = a.newTransport(a.files)
	return err
}

// newTransport creates the transport. It opens no connection yet.
func (o *options) newTransport(files *pki.Files) (*httptransport.Transport, error) {
	if o.brokerKubeconfig == "" {
		return httptransport.New(httptransport.Options{URLs: o.brokerURLs, Files: files, UserAgent: userAgent()})
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.brokerKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--broker-kubeconfig: %w", err)
	}
	config.UserAgent = userAgent()
	// Client-side limits are off: the API server limits callers, and the broker each cluster.
	config.QPS = -1
	return kubernetestransport.New(kubernetestransport.Options{Config: config, Namespace: o.brokerNamespace})
}

func userAgent() string { return "liqo-resource-broker-agent/" + version.String() }

// dialTimeout equals client-go's timeout, which client-go also uses for keepalives.
const dialTimeout = 30 * time.Second

func (a *agent) addCapacity(config *rest.Config) error {
	// The agent reads thousands of pods. Protobuf costs a fraction of JSON.
	config = rest.CopyConfig(config)
	config.ContentType = runtime.ContentTypeProtobuf
	config.Dial = capacity.Gather((&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext, func() bool {
		select {
		case <-a.watcher.Synced():
			return true
		default:
			return false
		}
	})
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	a.watcher = capacity.New(clientset, a.nodeLabels...).PlaceholdersIn(a.podNamespace)
	if file := a.settings.file; file != nil {
		pricer := pricing.New(a.watcher, clock.RealClock{}, a.log.WithName("pricing"))
		file.Follow(func(c *configuration.Configuration) {
			a.watcher.Lend(c.Nodes, a.offeredTaints(c.Taints), slices.Sorted(maps.Values(c.PriceLabels))...)
			pricer.Follow(c)
		})
		a.settings.pricer = pricer
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
	options := liqo.Options{
		ClusterID: a.clusterID, InstructionNamespace: a.instructionNamespace, LiqoNamespace: a.liqoNamespace,
		Client: a.mgr.GetClient(), Reader: a.mgr.GetAPIReader(),
		Messenger: a.transport, Sign: a.signPayload, Verify: a.verifyEnvelope,
		Unaccepted: a.watcher.Unaccepted, CheckEndpoint: a.rules.CheckEndpoint, Proxies: a.allowedProxies,
		Outbox: a.outbox, Clock: clock.RealClock{}, Log: a.log.WithName("peering"),
		GuardElsewhere: a.guardElsewhere,
		ReclaimAfter:   a.reclaimTimeout, GiveUpAfter: a.giveUpTimeout, DrainTimeout: a.drainTimeout,
	}
	if a.peeringMode == peeringKubeconfig {
		others := &kubeconfigs{dir: a.kubeconfigsDir, scheme: a.mgr.GetScheme(), clients: map[string]remote{}}
		options.Remote = others.clientOf
	}
	if a.connects {
		options.GatewayService = corev1.ServiceType(a.gatewayServiceType)
	}
	var err error
	if a.peering, err = liqo.New(options); err != nil {
		return err
	}
	a.scout.Through(a.peering.Tunnel)
	return nil
}

// resolveNetworking resolves --networking=auto. Without rights to read Liqo's Deployment auto
// means disabled: the agent would otherwise wait for networks whose state it cannot see.
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

func (a *agent) addControllers(config *rest.Config) error {
	advertises := advertisement.Options{
		ClusterID: a.clusterID, ClusterName: a.clusterName, EndpointURL: a.endpointURL, Settings: a.settings,
		Name: a.advertisementName, Namespace: a.advertisementNamespace,
		InstructionNamespace: a.instructionNamespace, Interval: a.advertisementInterval,
		Certificate: a.certificateCondition, Guarded: a.guardedCondition(),
	}
	consumes := reservationinstruction.Options{
		Namespace: a.instructionNamespace, Peering: a.peering, Reporter: a.transport, Outbox: a.outbox, Clock: clock.RealClock{},
		ExpiryNotice: a.expiryNotice, Recorder: a.mgr.GetEventRecorder(version.Product),
	}
	if a.scout != nil {
		advertises.Peers, consumes.Reach = a.scout, a.scout
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
	})
	if err := a.requests.SetupWithManager(a.mgr); err != nil {
		return err
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
		Namespace: a.instructionNamespace, Admit: newAdmission(a.mgr.GetClient(), a.watcher, a.instructionNamespace, a.settings.offerRules, liqo).admitPlacement,
		Peering: a.peering, Place: a.settings.ownPlace,
		Rights:       types.NamespacedName{Namespace: a.advertisementNamespace, Name: a.advertisementName},
		Placeholders: a.placeholderSettings(), ObjectLimits: a.objectLimits, BindSlices: a.bindSlices,
		Reporter: a.transport, Outbox: a.outbox, Clock: clock.RealClock{},
	})
}

// liqoCondition returns the function that reports Liqo's state. It reports nil without peering.
func (a *agent) liqoCondition(config *rest.Config) (func(context.Context) *metav1.Condition, error) {
	if a.withoutLiqo {
		// Installing Liqo takes effect at the agent's next start.
		missing := installation.Installation{}.Judge().Condition()
		return func(context.Context) *metav1.Condition { return &missing }, nil
	}
	if a.peeringMode == peeringNone {
		return func(context.Context) *metav1.Condition { return nil }, nil
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, err
	}
	return installation.NewPreflight(server.RESTClient(), a.mgr.GetAPIReader(), a.liqoNamespace, clock.RealClock{}).Condition, nil
}

func (a *agent) addInbox(*rest.Config) error {
	options := inbox.Options{
		Namespace: a.instructionNamespace, Interval: a.pollInterval, RefuseBrokerReservations: !a.acceptBrokerReservations,
		Hold: agentv1alpha1.Hold(a.hold),
	}
	options.ClusterID, options.Reader, options.Look = a.clusterID, a.mgr.GetAPIReader(), a.requests.Look
	if err := a.mgr.Add(inbox.NewInstructions(a.mgr.GetClient(), a.transport, options)); err != nil {
		return err
	}
	if a.peering == nil {
		return nil
	}
	return a.mgr.Add(inbox.NewMessages(a.transport, a.peering, options))
}

func (a *agent) addChecks(*rest.Config) error {
	if err := a.mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return a.mgr.AddReadyzCheck("ping", healthz.Ping)
}

var _ transport.Transport = (*httptransport.Transport)(nil)
