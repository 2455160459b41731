package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// probeTimeout bounds a request to the probes while the agent waits for its
// certificate.
const probeTimeout = 5 * time.Second

// acquire opens the certificate's files. With --identity-secret they are filled
// first, which may have to wait for somebody's approval.
func (a *agent) acquire(ctx context.Context, clientset kubernetes.Interface, liqoID string) error {
	if a.identitySecret != "" {
		if err := a.enrol(ctx, clientset, liqoID); err != nil {
			return err
		}
	}
	var err error
	if a.files, err = pki.OpenFiles(a.certPath, time.Now); err != nil {
		return fmt.Errorf("--broker-cert-path: %w", err)
	}
	return nil
}

func (a *agent) enrol(ctx context.Context, clientset kubernetes.Interface, liqoID string) error {
	options := identity.Options{
		Client: clientset, Secret: types.NamespacedName{Namespace: a.podNamespace, Name: a.identitySecret}, Dir: a.certPath,
		ClusterID: a.clusterID, Token: a.enrolmentToken, Log: a.log.WithName("identity"),
	}
	var err error
	if options.DefaultClusterID, err = a.defaultClusterID(ctx, clientset, liqoID); err != nil {
		return err
	}
	switch {
	case a.enrolmentURL != "":
		options.Enroller, err = httptransport.NewEnroller(httptransport.EnrollerOptions{
			URL: a.enrolmentURL, CAHashes: a.enrolmentCAHashes, Now: time.Now, UserAgent: userAgent(),
		})
		if err != nil {
			return err
		}
	case a.brokerKubeconfig != "":
		broker, err := a.connect(nil)
		if err != nil {
			return err
		}
		defer broker.Close() //nolint:errcheck // nothing is left to do with it
		options.Enroller = identity.Account{Broker: broker}
	}
	a.keeper = identity.New(options)
	stop, err := serveWaiting(ctx, a.healthAddress, a.keeper.Trouble)
	if err != nil {
		return err
	}
	certificate, err := a.keeper.Acquire(ctx)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	if a.brokerKubeconfig != "" {
		return nil
	}
	if len(a.brokerURLs) == 0 {
		a.brokerURLs = certificate.BrokerURLs
	}
	if len(a.brokerURLs) == 0 {
		return errors.New("--broker-url is missing, and the broker did not say at the enrolment where it serves agents: give the flag here, or --public-url there")
	}
	return nil
}

// serveWaiting answers the probes while there is no manager yet that could: alive,
// and not ready for the reason that trouble gives.
func serveWaiting(ctx context.Context, address string, trouble func() error) (stop func() error, err error) {
	if address == "" || address == "0" {
		return func() error { return nil }, nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--health-probe-bind-address: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		text := "waiting for a certificate"
		if err := trouble(); err != nil {
			text += ": " + err.Error()
		}
		http.Error(w, text, http.StatusServiceUnavailable)
	})
	server := &http.Server{Handler: mux, ReadTimeout: probeTimeout, WriteTimeout: probeTimeout}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	return func() error {
		closed := server.Close()
		if err := <-served; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return closed
	}, nil
}

// addIdentity keeps the certificate from expiring, and shows until when it is valid.
func (a *agent) addIdentity(*rest.Config) error {
	err := metrics.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agent_certificate_expiry_timestamp_seconds",
		Help: "When the certificate with which the agent speaks to the broker expires; 0 if it has none that is valid.",
	}, func() float64 {
		credentials, err := a.files.Current()
		if err != nil {
			return 0
		}
		return float64(credentials.Certificate.Leaf.NotAfter.Unix())
	}))
	if err != nil || a.keeper == nil {
		return err
	}
	a.keeper.RenewWith(a.transport, a.mgr.Elected())
	return a.mgr.Add(a.keeper)
}

// certificate is the condition that the Advertisement shows.
func (a *agent) certificate() metav1.Condition {
	credentials, invalid := a.files.Current()
	trouble := a.files.Problem()
	if a.keeper != nil {
		trouble = a.keeper.Trouble()
	}
	return identity.Condition(credentials, invalid, trouble, time.Now())
}
