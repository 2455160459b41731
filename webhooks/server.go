package webhooks

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// Off is the address that turns webhooks off.
const Off = "0"

// Options configure the webhook server.
type Options struct {
	// Address is the host:port to listen on, or Off.
	Address string
	// CertDir is the folder with tls.crt and tls.key. The server reloads changed files.
	CertDir string
}

// Bind binds the flags of the options.
func (o *Options) Bind(fs *pflag.FlagSet) {
	fs.StringVar(&o.Address, "webhook-bind-address", Off, "address of the webhooks, for example :9443; 0 turns them off")
	fs.StringVar(&o.CertDir, "webhook-cert-path", "", "folder with tls.crt and tls.key of the webhooks")
}

// Enabled reports whether webhooks are enabled.
func (o *Options) Enabled() bool { return o.Address != Off && o.Address != "" }

// Server returns the webhook server for ctrl.Options, or nil if webhooks are off. The manager runs
// it on every replica, not only on the leader.
func (o *Options) Server(now func() time.Time) (webhook.Server, error) {
	if !o.Enabled() {
		return nil, nil
	}
	if o.CertDir == "" {
		return nil, errors.New("--webhook-cert-path is missing: give the folder with tls.crt and tls.key, or --webhook-bind-address=0")
	}
	host, text, err := net.SplitHostPort(o.Address)
	if err != nil {
		return nil, fmt.Errorf("--webhook-bind-address: %q is not host:port, for example :9443", o.Address)
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil || port == 0 {
		return nil, fmt.Errorf("--webhook-bind-address: port %q must be a number from 1 to 65535", text)
	}
	return &boundedServer{webhook.NewServer(webhook.Options{
		Host: host, Port: int(port), CertDir: o.CertDir,
		TLSOpts: []func(*tls.Config){func(c *tls.Config) { c.MinVersion = tls.VersionTLS13 }},
	}), newInFlight(bytesInFlight), now}, nil
}

const (
	// largestReview is the largest request that the server reads. A review holds an old and a new
	// object of up to 1.5 MiB each, the limit of etcd.
	largestReview = 4 << 20
	// bytesInFlight limits the sum of the requests that are read or answered at the same time. An
	// ordinary review has some 10 KiB.
	bytesInFlight = 16 << 20
	// readWithin is how long a client may take to send a request: as long as the API server waits at
	// most by default.
	readWithin = 10 * time.Second
	// readAtOnce is how many bytes are read before they are counted.
	readAtOnce = 4 << 10
)

// boundedServer limits the memory that requests use. Not only the API server reaches the server, and
// the server does not know who calls it.
type boundedServer struct {
	webhook.Server
	inFlight *inFlight
	now      func() time.Time
}

// Register implements webhook.Server. A review that is complete waits until others are answered, or
// until the client gives up.
func (s *boundedServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength < 0 || r.ContentLength > largestReview {
			http.Error(w, fmt.Sprintf("a review has a length of at most %d bytes", largestReview), http.StatusRequestEntityTooLarge)
			return
		}
		conn := http.NewResponseController(w)
		if err := conn.SetReadDeadline(s.now().Add(readWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		review := s.inFlight.beginReview(r.Context(), func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
		defer review.release()
		_, err := io.CopyBuffer(review, r.Body, make([]byte, readAtOnce))
		if err := errors.Join(err, review.finishReading()); err != nil {
			http.Error(w, "the review did not arrive: "+err.Error(), http.StatusServiceUnavailable)
			return
		}
		r.Body = io.NopCloser(&review.body)
		hook.ServeHTTP(w, r)
	}))
}

// cacheWait is how long a readiness probe waits for the cache to fill.
const cacheWait = time.Second

// AddReadyCheck adds a readiness check that fails until the webhook server answers and the cache is
// filled.
func (o *Options) AddReadyCheck(mgr ctrl.Manager) error {
	started := mgr.GetWebhookServer().StartedChecker()
	return mgr.AddReadyzCheck("webhook", func(req *http.Request) error {
		if err := started(req); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(req.Context(), cacheWait)
		defer cancel()
		if !mgr.GetCache().WaitForCacheSync(ctx) {
			return errors.New("still filling the cache of the webhooks")
		}
		return nil
	})
}
