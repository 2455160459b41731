package app

import (
	"flag"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/journal"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/listener"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/logging"
	"github.com/mehdiazizian/liqo-resource-broker/internal/tracing/otlp"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

type options struct {
	healthAddress    string
	metrics          listener.Metrics
	metricsMembers   int
	bindAddress      string
	directAddress    string
	advertiseAddress string
	certPath         string
	console          listener.Console
	namespace        string
	leaderElect      bool
	// journalRetention is how long the journal's segments are kept as an audit trail, after they
	// are no longer needed for a replay.
	journalRetention time.Duration
	// mailboxes maps IDs of clusters to the namespaces in which they create ClusterMailboxes.
	mailboxes map[string]string
	// notifyLoopback allows receivers of notifications on this machine.
	notifyLoopback bool
	// exportDirectory is the folder into which channels of notifications write files.
	exportDirectory string
	// tracing says where spans are sent.
	tracing   otlp.Options
	enrolment enrolmentOptions
	webhook   webhooks.Options
	zap       zap.Options
}

func defaultOptions() *options {
	return &options{
		healthAddress: ":8081",
		metrics:       listener.Metrics{Address: ":8080"},
		bindAddress:   ":8443",
		directAddress: ":8445",
		namespace:     cluster.Namespace(),
		enrolment:     defaultEnrolment(),
		zap:           logging.Defaults(),

		journalRetention: 24 * time.Hour,
		metricsMembers:   200,
	}
}

// journalOptions returns the options of the journal that follow from the flags.
func (o *options) journalOptions() (journal.Options, error) {
	switch {
	case o.journalRetention < 0:
		return journal.Options{}, fmt.Errorf("--journal-retention %s is below zero: give a duration such as 24h, or 0 to keep no segments", o.journalRetention)
	case o.journalRetention == 0:
		return journal.Options{RetainFor: -1}, nil
	}
	return journal.Options{RetainFor: o.journalRetention}, nil
}

func (o *options) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress, "address of /healthz and /readyz")
	o.metrics.Bind(fs)
	fs.IntVar(&o.metricsMembers, "metrics-members", o.metricsMembers, "clusters with metrics of their own; all others share the label value _other")
	fs.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "address on which agents connect over mTLS")
	fs.StringVar(&o.certPath, "cert-path", o.certPath, "folder with tls.crt, tls.key, and agents-ca.crt, the CA of agents (default ca.crt)")
	fs.StringVar(&o.namespace, "namespace", o.namespace, "namespace of the broker and its journal; POD_NAMESPACE if set")
	fs.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "run as one of several replicas: the leader serves agents, the others forward them to it")
	fs.StringVar(&o.directAddress, "direct-bind-address", o.directAddress, "address for agents that other replicas forward, with --leader-elect")
	fs.StringVar(&o.advertiseAddress, "advertise-address", o.advertiseAddress, "host[:port] at which other replicas reach --direct-bind-address (default POD_IP)")

	fs.DurationVar(&o.journalRetention, "journal-retention", o.journalRetention, "how long old records of the journal are kept, at most 4096 segments; 0 keeps none")
	fs.StringToStringVar(&o.mailboxes, "mailboxes", o.mailboxes, "namespaces of clusters that call through mailboxes, as cluster-id=namespace; anyone who may create ClusterMailboxes there acts as the cluster")
	fs.BoolVar(&o.notifyLoopback, "notify-loopback", o.notifyLoopback, "also send notifications to loopback addresses")

	fs.StringVar(&o.exportDirectory, "export-directory", o.exportDirectory, "folder for notification channels with files, on a volume that replicas share")

	o.tracing.Bind(fs)
	o.console.Bind(fs)
	o.webhook.Bind(fs)
	o.enrolment.bindFlags(fs)

	std := flag.NewFlagSet("", flag.ContinueOnError)
	o.zap.BindFlags(std)
	fs.AddGoFlagSet(std)
	cluster.BindKubeconfig(fs)
}
