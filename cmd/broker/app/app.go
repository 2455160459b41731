// Package app builds the broker command from the parts in other packages.
package app

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/brokerconfig"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/clusteradvertisement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/broker/reservation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/replica"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/logging"
	"github.com/mehdiazizian/liqo-resource-broker/internal/console"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/receipt"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
)

// Command returns the broker's root command.
func Command() *cobra.Command {
	o := defaultOptions()
	cmd := &cobra.Command{
		Use:   "broker",
		Short: "Lend the free capacity of clusters to each other.",
		Long: `The broker collects the advertisements of all clusters, chooses the best provider
for each request, reserves the capacity and instructs both agents.

It stores its journal in ConfigMaps of --namespace, so it needs no storage of its
own and can be killed at any time. Agents connect over mTLS to --bind-address.
Without --cert-path that listener stays closed, and the broker serves only the
Reservations and ClusterAdvertisements of its own cluster.`,
		Example: `  broker --cert-path=/etc/broker/tls --namespace=liqo-resource-broker
  broker --kubeconfig=$HOME/.kube/config     # no agents: kubectl only`,
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		Version:      version.String(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return run(cmd.Context(), o)
		},
	}
	o.bindFlags(cmd.Flags())
	cmd.AddCommand(enrolCommand(), forgetCommand(), configureCommand(), checkCommand(), uninstallCommand())
	return cmd
}

func run(ctx context.Context, o *options) error {
	log := logging.Start(&o.zap)

	mgr, err := newManager(o)
	if err != nil {
		return err
	}
	b, notifications, election, err := newBroker(ctx, mgr, o, log)
	if err != nil {
		return err
	}
	if err := addControllers(mgr, b, notifications, o); err != nil {
		return err
	}
	if err := addWebhooks(ctx, mgr, b, election, o); err != nil {
		return err
	}
	if o.certPath == "" {
		if o.enrolment.isListening() {
			return errors.New("--enrolment-bind-address needs --cert-path")
		}
		if len(o.mailboxes) > 0 {
			return errors.New("--mailboxes needs --cert-path: one CA identifies agents on both transports")
		}
		log.Info("no --cert-path: serving only Reservations created with kubectl, agents cannot connect")
	} else if err := addServer(ctx, mgr, b, election, o, log.WithName("server")); err != nil {
		return err
	}
	if err := o.console.AddTo(ctx, mgr, console.Options{Broker: true, Name: "Broker", Now: time.Now, Log: log.WithName("console")}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func newScheme() (*runtime.Scheme, error) { return cluster.NewScheme(brokerv1alpha1.AddToScheme) }

func newManager(o *options) (ctrl.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config, err := cluster.Config()
	if err != nil {
		return nil, err
	}
	config.Wrap(withEventsLast)
	webhookServer, err := o.webhook.Server(time.Now)
	if err != nil {
		return nil, err
	}
	metricsOptions, err := o.metrics.Options()
	if err != nil {
		return nil, err
	}
	watched := leaseCache(o.namespace)
	maps.Copy(watched, mailboxCache(o.mailboxes))
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		WebhookServer:           webhookServer,
		Scheme:                  scheme,
		Cache:                   cache.Options{NewInformer: newInformer, DefaultTransform: cache.TransformStripManagedFields(), ByObject: watched},
		Metrics:                 metricsOptions,
		HealthProbeBindAddress:  o.healthAddress,
		GracefulShutdownTimeout: new(10 * time.Second),
	})
	if err != nil {
		return nil, fmt.Errorf("creating the manager: %w", err)
	}
	return mgr, nil
}

// newBroker creates the broker, and the election if --leader-elect is set; otherwise the election
// is nil. It also returns the outbox of the broker's notifications.
func newBroker(ctx context.Context, mgr ctrl.Manager, o *options, log logr.Logger) (*broker.Broker, *outbox.Outbox, *replica.Election, error) {
	store, err := journal.NewConfigMaps(mgr.GetConfig(), o.namespace)
	if err != nil {
		return nil, nil, nil, err
	}
	journalOptions, err := o.journalOptions()
	if err != nil {
		return nil, nil, nil, err
	}
	receipts, err := newSigner(o)
	if err != nil {
		return nil, nil, nil, err
	}
	recordSpan, err := o.tracing.AddTo(ctx, mgr, version.Product, "")
	if err != nil {
		return nil, nil, nil, err
	}
	var b *broker.Broker
	notifications := newOutbox(mgr, o, store, journalOptions, func() *broker.Broker { return b }, log.WithName("notifications"))
	journalOptions.Keep = notifications.Keep
	log = log.WithName("broker")
	var election *replica.Election
	options := broker.Options{
		Store: store, Journal: journalOptions, Version: version.String(), Log: log, Now: time.Now, MetricsMembers: o.metricsMembers,
		Receipts: receipts, RecordSpan: recordSpan,
	}
	if o.leaderElect {
		options.Leads = func() bool { return election.Leads() }
	}
	b = broker.New(options)
	if o.leaderElect {
		election, err = addElection(mgr, o, b, log.WithName("election"))
	} else {
		err = mgr.Add(b)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	for _, collector := range []prometheus.Collector{broker.NewCollector(b), notifications} {
		if err := metrics.Registry.Register(collector); err != nil {
			return nil, nil, nil, fmt.Errorf("metrics of the broker: %w", err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, nil, nil, err
	}
	return b, notifications, election, mgr.AddReadyzCheck("journal", func(*http.Request) error { return checkReady(b, election) })
}

// newSigner returns the signer of receipts. It is nil for a broker without a server certificate,
// which serves no agents.
func newSigner(o *options) (*receipt.Signer, error) {
	if o.certPath == "" {
		return nil, nil
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return nil, err
	}
	return receipt.NewSigner(files.Current), nil
}

// checkReady returns nil if agents that connect to this replica are served, by this replica or by
// the leader to which it forwards them. A replica that has not read the journal yet is not ready, so
// that an upgrade ends no leader whose successor would first have to read all of it.
func checkReady(b *broker.Broker, e *replica.Election) error {
	if e == nil {
		return b.Ready()
	}
	if leader, _ := e.Leader(); leader.Here {
		return b.Ready()
	}
	return errors.Join(e.Ready(), b.ReadyToFollow())
}

func addControllers(mgr ctrl.Manager, b *broker.Broker, notifications *outbox.Outbox, o *options) error {
	if err := brokerconfig.Setup(mgr, b, notifications); err != nil {
		return err
	}
	if err := clusteradvertisement.Setup(mgr, b, o.namespace); err != nil {
		return err
	}
	return reservation.Setup(mgr, b, o.namespace, clock.RealClock{})
}

func addServer(ctx context.Context, mgr ctrl.Manager, b *broker.Broker, e *replica.Election, o *options, log logr.Logger) error {
	certificates, err := addEnrolment(mgr, b, o, log.WithName("enrolment"))
	if err != nil {
		return err
	}
	options := server.Options{
		Addr: o.bindAddress, CertDir: o.certPath, Broker: b, Access: b.Access(), Certificates: certificates, Log: log,
		Registerer: metrics.Registry, OnRefusal: b.NoteRefusal,
	}
	if e != nil {
		if options.Listener, options.Direct, err = openListeners(ctx, mgr, o, e, log.WithName("front")); err != nil {
			return err
		}
	}
	s, err := server.New(options)
	if err != nil {
		return err
	}
	if err := addMailboxes(mgr, b, s, o); err != nil {
		return err
	}
	return mgr.Add(s)
}
