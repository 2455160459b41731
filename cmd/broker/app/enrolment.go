package app

import (
	"fmt"
	"net"
	"net/url"
	"time"

	cmapi "github.com/cert-manager/cert-manager/pkg/apis/certmanager/v1"
	cmmeta "github.com/cert-manager/cert-manager/pkg/apis/meta/v1"
	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/enrolment"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/server"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/version"
	"github.com/mehdiazizian/liqo-resource-broker/webhooks"
)

// enrolmentOptions configure enrolment and the certificates that the broker issues to clusters.
type enrolmentOptions struct {
	bindAddress string
	publicURL   string
	// enrolmentURL is the address at which clusters reach the enrolment listener. publicURL is the
	// address at which agents reach the listener at --bind-address.
	enrolmentURL string
	issuer       cmmeta.IssuerReference
	trustDomain  string
	duration     time.Duration
}

func defaultEnrolment() enrolmentOptions {
	return enrolmentOptions{
		bindAddress: webhooks.Off,
		issuer:      cmmeta.IssuerReference{Kind: "Issuer", Group: "cert-manager.io"},
		trustDomain: "cluster.local",
		duration:    24 * time.Hour,
	}
}

func (o *enrolmentOptions) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.bindAddress, "enrolment-bind-address", o.bindAddress, "address on which clusters without a certificate enrol; 0 turns it off")
	fs.StringVar(&o.publicURL, "public-url", o.publicURL, "https address of the broker for agents, which enrolment tells them")
	fs.StringVar(&o.enrolmentURL, "enrolment-public-url", o.enrolmentURL, "https address of the enrolment listener (default the host of --public-url)")
	fs.StringVar(&o.issuer.Name, "agents-issuer-name", o.issuer.Name, "cert-manager's issuer of agents' certificates; without it nothing is enrolled or renewed")
	fs.StringVar(&o.issuer.Kind, "agents-issuer-kind", o.issuer.Kind, "Issuer (in --namespace) or ClusterIssuer")
	fs.StringVar(&o.trustDomain, "trust-domain", o.trustDomain, "trust domain in the names of agents' certificates, spiffe://<trust domain>/cluster/<cluster ID>")
	fs.DurationVar(&o.duration, "agent-certificate-duration", o.duration, "lifetime of an agent's certificate, at least 1h")
}

func (o *enrolmentOptions) isListening() bool {
	return o.bindAddress != webhooks.Off && o.bindAddress != ""
}

// resolveURLs returns the URLs that clusters receive at enrolment: public is for agents, and
// enrolment is for clusters that enrol. If --enrolment-public-url is not set, it derives enrolment
// from --public-url. A URL that is not known is empty.
func (o *enrolmentOptions) resolveURLs() (public []string, enrolment string, err error) {
	own, err := parseURL("--enrolment-public-url", o.enrolmentURL)
	if err != nil {
		return nil, "", err
	}
	agents, err := parseURL("--public-url", o.publicURL)
	if err != nil || agents == nil {
		return nil, o.enrolmentURL, err
	}
	if own != nil || !o.isListening() {
		return []string{o.publicURL}, o.enrolmentURL, nil
	}
	_, port, err := net.SplitHostPort(o.bindAddress)
	if err != nil {
		return nil, "", fmt.Errorf("--enrolment-bind-address %q: %w", o.bindAddress, err)
	}
	return []string{o.publicURL}, "https://" + net.JoinHostPort(agents.Hostname(), port), nil
}

// parseURL parses the value of a flag, an https URL without path. It returns nil if the value is
// empty.
func parseURL(flag, text string) (*url.URL, error) {
	if text == "" {
		return nil, nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.String() != "https://"+u.Host {
		return nil, fmt.Errorf("%s %q: want https://host[:port]", flag, text)
	}
	return u, nil
}

// addEnrolment registers the component that issues certificates to clusters, and the enrolment
// listener if it is on. It returns nil if --agents-issuer-name is not set.
func addEnrolment(mgr ctrl.Manager, b *broker.Broker, o *options, log logr.Logger) (server.Certificates, error) {
	e := &o.enrolment
	if e.issuer.Name == "" {
		if e.isListening() {
			return nil, fmt.Errorf("--enrolment-bind-address %q: there is no issuer of certificates: set --agents-issuer-name", e.bindAddress)
		}
		return nil, nil
	}
	enroller, err := newEnroller(mgr, b, o, log)
	if err != nil {
		return nil, err
	}
	if err := mgr.Add(enroller); err != nil {
		return nil, err
	}
	if !e.isListening() {
		return enroller, nil
	}
	s, err := server.NewEnrolment(server.Options{
		Addr: e.bindAddress, CertDir: o.certPath, Certificates: enroller, Log: log, Registerer: metrics.Registry,
	})
	if err != nil {
		return nil, err
	}
	return enroller, mgr.Add(s)
}

func newEnroller(mgr ctrl.Manager, b *broker.Broker, o *options, log logr.Logger) (*enrolment.Enroller, error) {
	e := &o.enrolment
	public, own, err := e.resolveURLs()
	if err != nil {
		return nil, err
	}
	files, err := pki.OpenFiles(o.certPath, time.Now)
	if err != nil {
		return nil, fmt.Errorf("--cert-path: %w", err)
	}
	direct, err := certificateClient(mgr.GetConfig())
	if err != nil {
		return nil, err
	}
	return enrolment.New(enrolment.Options{
		Client: direct, Namespace: o.namespace, Issuer: e.issuer, TrustDomain: e.trustDomain, Duration: e.duration,
		BrokerURLs: public, EnrolmentURL: own, Listens: e.isListening(), Files: files, Access: b.Access(),
		Recorder: mgr.GetEventRecorder(version.Product), Log: log, Clock: clock.RealClock{},
	})
}

// certificateClient creates a client without cache that knows cert-manager's types.
func certificateClient(config *rest.Config) (client.WithWatch, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	if err := cmapi.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}
