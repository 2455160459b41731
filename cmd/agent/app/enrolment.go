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
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/identity"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
)

// probeTimeout is the read and write timeout of the server that answers probes while the agent
// waits for its certificate.
const probeTimeout = 5 * time.Second

// openCertificate opens the files of the certificate. With --identity-secret it enrols the cluster
// first. It may then wait for an administrator's approval.
func (a *agent) openCertificate(ctx context.Context, clientset kubernetes.Interface, liqoID string) error {
	if a.identitySecret != "" {
		if err := a.enrolCluster(ctx, clientset, liqoID); err != nil {
			return err
		}
	}
	var err error
	if a.files, err = pki.OpenFiles(a.certPath, time.Now); err != nil {
		return fmt.Errorf("--broker-cert-path: %w", err)
	}
	return nil
}

func (a *agent) enrolCluster(ctx context.Context, clientset kubernetes.Interface, liqoID string) error {
	options := identity.Options{
		Client: clientset, Secret: types.NamespacedName{Namespace: a.podNamespace, Name: a.identitySecret}, Dir: a.certPath,
		ClusterID: a.clusterID, Token: a.enrolmentToken, Clock: clock.RealClock{}, Log: a.log.WithName("identity"),
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
		broker, err := a.newTransport(nil)
		if err != nil {
			return err
		}
		defer broker.Close() //nolint:errcheck // it is not used any longer, so an error does not matter
		options.Enroller = identity.Account{Broker: broker}
	}
	a.keeper = identity.New(options)
	stop, err := serveProbes(ctx, a.healthAddress, a.keeper.Trouble)
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
		return errors.New("--broker-url is missing, and the broker sent no URL at enrolment: set the flag, or --public-url of the broker")
	}
	return nil
}

// serveProbes answers liveness and readiness probes until the caller calls stop; after that, the
// manager answers them. Liveness probes succeed. Readiness probes fail with the error that trouble
// returns.
func serveProbes(ctx context.Context, address string, trouble func() error) (stop func() error, err error) {
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

// addIdentity registers the metric of the certificate's expiry, and starts its renewal if the agent
// manages the certificate.
func (a *agent) addIdentity(*rest.Config) error {
	err := metrics.Registry.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "agent_certificate_expiry_timestamp_seconds",
		Help: "Expiry of the agent's client certificate as Unix time; 0 without a valid certificate.",
	}, a.files.Expiry))
	if err != nil || a.keeper == nil {
		return err
	}
	a.keeper.RenewWith(a.transport, a.mgr.Elected())
	return a.mgr.Add(a.keeper)
}

// certificateCondition returns the condition CertificateValid for the Advertisement.
func (a *agent) certificateCondition(context.Context) *metav1.Condition {
	credentials, invalid := a.files.Current()
	trouble := a.files.Problem()
	if a.keeper != nil {
		trouble = a.keeper.Trouble()
	}
	return new(identity.Condition(credentials, invalid, trouble, time.Now()))
}
