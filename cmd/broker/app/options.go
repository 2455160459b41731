package app

import (
	"flag"

	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/cluster"
	"github.com/mehdiazizian/liqo-resource-broker/internal/cli/listener"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

type options struct {
	healthAddress    string
	metrics          listener.Metrics
	bindAddress      string
	directAddress    string
	advertiseAddress string
	certPath         string
	namespace        string
	leaderElect      bool
	// mailboxes are namespaces by cluster ID.
	mailboxes map[string]string
	enrolment enrolmentOptions
	webhook   webhooks.Options
	zap       zap.Options
}

func defaults() *options {
	return &options{
		healthAddress: ":8081",
		metrics:       listener.Metrics{Address: ":8080"},
		bindAddress:   ":8443",
		directAddress: ":8445",
		namespace:     cluster.Namespace(),
		enrolment:     defaultEnrolment(),
	}
}

func (o *options) bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.healthAddress, "health-probe-bind-address", o.healthAddress, "address of /healthz and /readyz; ready means that the journal can be written or, with --leader-elect, that another replica does")
	o.metrics.Bind(fs)
	fs.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "address on which agents connect over mTLS")
	fs.StringVar(&o.certPath, "cert-path", o.certPath, "folder with tls.crt, tls.key (the broker's) and agents-ca.crt (who may connect; ca.crt if absent)")
	fs.StringVar(&o.namespace, "namespace", o.namespace, "namespace of the journal and of what agents' clusters and reservations are shown in; POD_NAMESPACE if set")
	fs.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "be one of several replicas: the one that holds a lease serves, the others pass agents on to it")
	fs.StringVar(&o.directAddress, "direct-bind-address", o.directAddress, "with --leader-elect, address on which other replicas pass agents on to this one; for the broker's cluster alone")
	fs.StringVar(&o.advertiseAddress, "advertise-address", o.advertiseAddress, "with --leader-elect, host[:port] at which other replicas reach --direct-bind-address; POD_IP and that port if not given")

	fs.StringToStringVar(&o.mailboxes, "mailboxes", o.mailboxes, "namespaces whose ClusterMailboxes are answered, as cluster-id=namespace: whoever may create one there speaks for that cluster; for agents with --broker-kubeconfig")

	o.webhook.Bind(fs)
	o.enrolment.bind(fs)

	std := flag.NewFlagSet("", flag.ContinueOnError)
	o.zap.BindFlags(std)
	fs.AddGoFlagSet(std)
	cluster.BindKubeconfig(fs)
}
