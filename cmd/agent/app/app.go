// Package app wires the agent from its parts.
package app

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/lendingpolicy"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/reservationinstruction"
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/guard"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// Command is the agent's command line.
func Command() *cobra.Command {
	o := defaults()
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Lend this cluster's free capacity, and use that of others.",
		Long: `The agent runs in every member cluster. It tells the broker what is free here,
carries ResourceRequests to the broker, turns what was granted into a virtual
node through Liqo, and provides what others were granted here.

It holds no credential of any other cluster, unless --kubeconfigs-dir gives it some of
clusters without an agent. --broker-cert-path is a folder with
tls.crt and tls.key (this cluster's certificate, common name = cluster ID),
ca.crt (the CA of the broker's certificate) and agents-ca.crt (the CA of the
agents; ca.crt if absent). With --identity-secret the agent fills that folder
itself: it enrols the cluster at --enrolment-url, or by its account with
--broker-kubeconfig, and renews the certificate.`,
		Example: `  agent --identity-secret=agent-identity --broker-cert-path=/var/run/agent/tls \
    --enrolment-url=https://broker.example.com:8444 \
    --enrolment-ca-hash=sha256:... --enrolment-token=@/etc/agent/token   # as broker enrol prints it
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
	o.bind(cmd.Flags())
	cmd.AddCommand(checkCommand(), uninstallCommand())
	return cmd
}

// agent is what the parts are wired with.
type agent struct {
	*options
	mgr   ctrl.Manager
	log   logr.Logger
	files *pki.Files
	// keeper is nil where somebody else puts the certificate into the files.
	keeper    *identity.Keeper
	transport *httptransport.Transport
	settings  *settings
	watcher   *capacity.Watcher
	outbox    *outbox.Outbox
	requests  *resourcerequest.Reconciler
	peering   *liqo.Peering
	// offloaded is nil where nobody peers.
	offloaded *offloaded
	// scout is nil where nobody peers.
	scout *reach.Scout
	// rules say which addresses of providers this cluster connects to.
	rules reach.Rules
	// withoutLiqo is whether nobody peers because there was no Liqo when the agent started.
	withoutLiqo bool
	// connects is whether networks are connected through Liqo.
	connects bool
}

func run(ctx context.Context, o *options) error {
	log := zap.New(zap.UseFlagOptions(&o.zap))
	ctrl.SetLogger(log)
	if err := o.complete(); err != nil {
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
	if err := a.settle(ctx, config); err != nil {
		if ctx.Err() != nil {
			return nil // stopped while it waited for its certificate
		}
		return err
	}
	if a.mgr, err = newManager(config, o); err != nil {
		return err
	}
	if err := a.settleNetworking(ctx, config); err != nil {
		return err
	}
	for _, add := range []func(*rest.Config) error{a.addTransport, a.addIdentity, a.addCapacity, a.addPeering, a.addOffloaded, a.addControllers, a.addEnforcement, a.addInbox, a.addChecks, a.addWebhooks} {
		if err := add(config); err != nil {
			return err
		}
	}
	log.Info("agent starts", "cluster", o.clusterID, "broker", a.transport.Addresses(), "peering", o.peeringMode, "networking", a.connects, "endpoint", o.endpointURL)
	defer a.transport.Close() //nolint:errcheck // nothing is left to do with it
	return a.mgr.Start(ctx)
}

// newScheme knows what the agent reads and writes.
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
	lock, err := o.lock(config)
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
		// In place of the one that the three lines above would make, unless it is nil.
		LeaderElectionResourceLockInterface: lock,
		GracefulShutdownTimeout:             new(10 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("starting the manager: %w", err)
	}
	return mgr, nil
}

func (a *agent) addTransport(*rest.Config) error {
	var err error
	a.transport, err = a.connect(a.files)
	return err
}

// connect makes the transport. It does not connect yet.
func (o *options) connect(files *pki.Files) (*httptransport.Transport, error) {
	if o.brokerKubeconfig == "" {
		return httptransport.New(httptransport.Options{URLs: o.brokerURLs, Files: files, UserAgent: userAgent()})
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.brokerKubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--broker-kubeconfig: %w", err)
	}
	config.UserAgent = userAgent()
	// The API server limits callers, and the broker each cluster.
	config.QPS = -1
	return kubernetestransport.New(kubernetestransport.Options{Config: config, Namespace: o.brokerNamespace})
}

func userAgent() string { return "liqo-resource-broker-agent/" + version.String() }

// dialTimeout is that of client-go, and so is its use for keepalives.
const dialTimeout = 30 * time.Second

func (a *agent) addCapacity(config *rest.Config) error {
	// Pods are read by the thousand: protobuf costs a fraction of JSON.
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
			a.watcher.Lend(c.Nodes, slices.Sorted(maps.Values(c.PriceLabels))...)
			pricer.Follow(c)
		})
		if a.cost() == nil {
			a.settings.pricer = pricer
			if err := a.mgr.Add(pricer); err != nil {
				return err
			}
		}
		if err := a.mgr.Add(file); err != nil {
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
	if why := a.haste(); why != "" {
		a.log.Info("WARNING: " + why)
	}
	options := liqo.Options{
		ClusterID: a.clusterID, InstructionNamespace: a.instructionNamespace, LiqoNamespace: a.liqoNamespace,
		Client: a.mgr.GetClient(), Reader: a.mgr.GetAPIReader(),
		Messenger: a.transport, Sign: a.sign, Verify: a.verify,
		Rejected: a.watcher.Rejected, CheckEndpoint: a.rules.CheckEndpoint, Proxies: a.allowedProxies,
		Outbox: a.outbox, Clock: clock.RealClock{}, Log: a.log.WithName("peering"),
		GuardElsewhere: a.guardElsewhere,
		ReclaimAfter:   a.reclaimTimeout, GiveUpAfter: a.giveUpTimeout, DrainTimeout: a.drainTimeout,
	}
	if a.peeringMode == peeringKubeconfig {
		others := &kubeconfigs{dir: a.kubeconfigsDir, scheme: a.mgr.GetScheme(), clients: map[string]remote{}}
		options.Remote = others.client
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

// settleNetworking finds out what --networking comes to. Where Liqo's Deployment cannot be
// read, auto is disabled: the agent would wait for networks of which nobody says anything.
func (a *agent) settleNetworking(ctx context.Context, config *rest.Config) error {
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

func (a *agent) sign(payload []byte) ([]byte, error) {
	credentials, err := a.files.Current()
	if err != nil {
		return nil, err
	}
	return pki.Sign(payload, credentials.Certificate)
}

func (a *agent) verify(envelope []byte) (string, []byte, error) {
	credentials, err := a.files.Current()
	if err != nil {
		return "", nil, err
	}
	return pki.Verify(envelope, credentials.AgentsCA, time.Now())
}

func (a *agent) addControllers(config *rest.Config) error {
	advertises := advertisement.Options{
		ClusterID: a.clusterID, ClusterName: a.clusterName, EndpointURL: a.endpointURL, Terms: a.settings,
		Name: a.advertisementName, Namespace: a.advertisementNamespace,
		InstructionNamespace: a.instructionNamespace, Interval: a.advertisementInterval,
		Certificate: a.certificate,
	}
	consumes := reservationinstruction.Options{
		Namespace: a.instructionNamespace, Peering: a.peering, Reporter: a.transport, Outbox: a.outbox, Clock: clock.RealClock{},
		ExpiryNotice: a.expiryNotice, Recorder: a.mgr.GetEventRecorder("reservationinstruction"),
	}
	if a.scout != nil {
		advertises.Peers, consumes.Reach = a.scout, a.scout
	}
	var err error
	if advertises.Liqo, err = a.preflight(config); err != nil {
		return err
	}
	err = advertisement.New(a.mgr.GetClient(), a.transport, a.watcher, a.mgr.GetEventRecorder("advertisement"), advertises).SetupWithManager(a.mgr)
	if err != nil {
		return err
	}
	a.requests = resourcerequest.New(a.mgr.GetClient(), a.transport, a.mgr.GetEventRecorder("resourcerequest"), resourcerequest.Options{
		ClusterID: a.clusterID, InstructionNamespace: a.instructionNamespace, Reader: a.mgr.GetAPIReader(),
	})
	if err := a.requests.SetupWithManager(a.mgr); err != nil {
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
		Namespace: a.instructionNamespace, Admit: newAdmission(a.mgr.GetClient(), a.watcher, a.instructionNamespace, a.settings.offer).admit,
		Peering: a.peering, Place: a.settings.place,
		Rights:       types.NamespacedName{Namespace: a.advertisementNamespace, Name: a.advertisementName},
		Placeholders: a.placeholders(), ObjectLimits: a.objectLimits, BindSlices: a.bindSlices,
		Reporter: a.transport, Outbox: a.outbox, Clock: clock.RealClock{},
	})
}

// preflight is what says how Liqo is, nil where nobody is to peer.
func (a *agent) preflight(config *rest.Config) (func(context.Context) metav1.Condition, error) {
	if a.withoutLiqo {
		// It peers once it is started anew, whatever was installed meanwhile.
		return func(context.Context) metav1.Condition { return installation.Installation{}.Judge().Condition() }, nil
	}
	if a.peeringMode == peeringNone {
		return nil, nil
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
