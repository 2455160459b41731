package robustness

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	namespace = "liqo-resource-broker"
	// leaseName is the name of the replicas' lease.
	leaseName = "liqo-resource-broker"
	// patience is enough for every wait on a busy machine.
	patience = 2 * time.Minute
)

// site is a broker's cluster, its replicas, and the credentials to reach them.
type site struct {
	client.Client
	t        *testing.T
	plane    *controlplane.ControlPlane
	servers  *pkitest.Authority
	agents   *pkitest.Authority
	replicas []*replica
	records  *records
	// defects are observed violations of a promise.
	defects defects
}

// defects collects the findings of goroutines.
type defects struct {
	mu    sync.Mutex
	found []string
}

func (d *defects) note(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = append(d.found, fmt.Sprintf(format, args...))
}

// report fails the test for each defect, up to a readable number.
func (d *defects) report(t *testing.T) {
	t.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, found := range d.found {
		if i == 10 {
			t.Errorf("and %d more", len(d.found)-i)
			return
		}
		t.Error(found)
	}
}

// binary builds the broker once, with the overlay that this test was given.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "broker")
	if err != nil {
		return "", err
	}
	args := []string{"build", "-o", filepath.Join(dir, "broker")}
	if path := os.Getenv(overlayVariable); path != "" {
		args = append(args, "-overlay", path)
	}
	if out, err := exec.Command("go", append(args, "../../cmd/broker")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the broker: %w\n%s", err, out)
	}
	return filepath.Join(dir, "broker"), nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path)) // a folder of this run
	}
	os.Exit(code)
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{t: t, plane: controlplanetest.Start(t)}
	s.records = s.watchRecords()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, brokerv1alpha1.AddToScheme} {
		s.check(add(scheme))
	}
	config := s.plane.RESTConfig()
	config.Timeout = patience
	var err error
	s.Client, err = client.New(config, client.Options{Scheme: scheme})
	s.check(err)
	objects, err := chart.BrokerForProcess(namespace, namespace)
	s.check(err)
	s.check(s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	s.check(manifest.Install(t.Context(), s.Client, objects))
	s.servers, err = pkitest.NewAuthority("servers", time.Now())
	s.check(err)
	s.agents, err = pkitest.NewAuthority("agents", time.Now())
	s.check(err)
	return s
}

func (s *site) check(err error) {
	s.t.Helper()
	runtest.Check(s.t, err)
}

// replica is a broker process that is restarted whenever it dies.
type replica struct {
	*process.Process
	url, direct, health string
}

// start runs replicas, waits until all of them are ready, and offers the slots. A single replica
// takes part in no election.
func (s *site) start(replicas int, environment ...string) {
	s.t.Helper()
	for i := range replicas {
		s.replicas = append(s.replicas, s.startReplica(fmt.Sprintf("broker-%d", i), replicas > 1, environment))
	}
	for _, r := range s.replicas {
		s.awaitReady(r)
	}
	s.offerSlots()
}

func (s *site) address(name string) string {
	s.t.Helper()
	port, err := s.plane.Port(name)
	s.check(err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

func (s *site) startReplica(name string, elects bool, environment []string) *replica {
	s.t.Helper()
	path, err := binary()
	s.check(err)
	kubeconfig, err := s.plane.ServiceAccountKubeconfig(s.t.Context(), namespace, "liqo-resource-broker")
	s.check(err)
	pair, err := s.servers.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	s.check(err)
	certificates := s.t.TempDir()
	s.check(pkitest.Save(certificates, pair, s.servers.CertPEM(), s.agents.CertPEM()))

	front, health := s.address(name), s.address(name+"-health")
	r := &replica{url: "https://" + front, direct: s.address(name + "-direct"), health: "http://" + health + "/readyz"}
	args := []string{
		"--kubeconfig=" + kubeconfig, "--namespace=" + namespace, "--bind-address=" + front,
		"--cert-path=" + certificates, "--metrics-bind-address=0", "--health-probe-bind-address=" + health,
	}
	if elects {
		args = append(args, "--leader-elect", "--direct-bind-address="+r.direct, "--advertise-address="+r.direct)
	}
	r.Process, err = s.plane.Processes().Start(process.Spec{
		Name: name, Path: path, Args: args, Env: append(environment, mutantVariable+"="+os.Getenv(mutantVariable)), Layer: process.Controller, Restart: true, Backoff: 200 * time.Millisecond,
	})
	s.check(err)
	s.t.Cleanup(func() { s.readLog(r) })
	return r
}

// readLog checks the log for crashes.
func (s *site) readLog(r *replica) {
	text, err := os.ReadFile(r.Log())
	if err != nil {
		s.t.Error(err)
		return
	}
	for _, crash := range []string{"panic:", "fatal error:", "request failed"} {
		if at := strings.Index(string(text), crash); at >= 0 {
			s.t.Errorf("%s: %.3000s", r.Name(), text[at:])
		}
	}
	if s.t.Failed() {
		s.t.Logf("%s ends with %s", r.Name(), text[max(0, len(text)-6000):])
	}
}

func (s *site) awaitReady(r *replica) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.check(r.Await(ctx, process.Answers(r.health)))
}

func (s *site) urls() []string {
	var urls []string
	for _, r := range s.replicas {
		urls = append(urls, r.url)
	}
	return urls
}

// leader waits until a replica holds the lease, and returns it. It ignores the replica in the
// parameter but.
func (s *site) leader(but *replica) *replica {
	s.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var lease coordinationv1.Lease
		err := s.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: leaseName}, &lease)
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		for _, r := range s.replicas {
			if r != but && strings.HasSuffix(holder, "_"+r.direct) {
				return r
			}
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("the lease is held by %q, %v", holder, err)
		}
	}
}

// signal sends a signal to a running replica.
func (r *replica) signal(sig syscall.Signal) {
	if pid := r.Pid(); pid != 0 {
		_ = syscall.Kill(pid, sig) // it may just have ended, as intended
	}
}

// tlsFor returns the client TLS configuration of a cluster.
func (s *site) tlsFor(clusterID string) *tls.Config {
	s.t.Helper()
	pair, err := s.agents.IssueClient(clusterID, "test.local")
	s.check(err)
	certificate, err := pair.TLS()
	s.check(err)
	return &tls.Config{Certificates: []tls.Certificate{certificate}, RootCAs: s.servers.Pool(), MinVersion: tls.VersionTLS13}
}

func (s *site) roundTripper(clusterID string) http.RoundTripper {
	// With one HTTP/2 connection, a request without an answer would hold up others.
	transport := &http.Transport{TLSClientConfig: s.tlsFor(clusterID), MaxIdleConnsPerHost: 8}
	s.t.Cleanup(transport.CloseIdleConnections)
	return transport
}
