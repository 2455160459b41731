package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki/pkitest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

const (
	namespace = "liqo-resource-broker"
	// waitTimeout is longer than anything that a study waits for on a busy machine.
	waitTimeout = 2 * time.Minute
)

// site is the control plane of one study. It has the broker's CRDs and rights.
type site struct {
	client.WithWatch
	dir     string
	plane   *controlplane.ControlPlane
	servers *pkitest.Authority
	agents  *pkitest.Authority
	closers []func() error
}

func newSite(ctx context.Context) (*site, error) {
	dir, err := os.MkdirTemp("", "bench")
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir}
	s.closers = append(s.closers, func() error { return os.RemoveAll(dir) })
	if err := s.boot(ctx); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *site) boot(ctx context.Context) error {
	var err error
	if s.plane, err = controlplane.Start(ctx, controlplane.Options{Dir: filepath.Join(s.dir, "plane"), Name: "bench", Fsync: true, RequestTimeout: 3 * waitTimeout}); err != nil {
		return err
	}
	s.closers = append(s.closers, s.plane.Kill)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, brokerv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	config := s.plane.RESTConfig()
	config.QPS = -1
	if s.WithWatch, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	objects, err := chart.BrokerForProcess(namespace, namespace)
	if err != nil {
		return err
	}
	if err := s.makeNamespace(ctx, namespace); err != nil {
		return err
	}
	if err := manifest.Install(ctx, s, objects); err != nil {
		return err
	}
	if s.servers, err = pkitest.NewAuthority("servers", time.Now()); err != nil {
		return err
	}
	s.agents, err = pkitest.NewAuthority("agents", time.Now())
	return err
}

func (s *site) makeNamespace(ctx context.Context, name string) error {
	return s.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
}

// close stops all parts of the site. The parts that started last are stopped first.
func (s *site) close() error {
	var failed error
	for _, close := range slices.Backward(s.closers) {
		failed = errors.Join(failed, close())
	}
	return failed
}

func (s *site) address(name string) (string, error) {
	port, err := s.plane.Port(name)
	return fmt.Sprintf("127.0.0.1:%d", port), err
}

// awaitCondition polls until the condition is true. It returns an error after the time
// patience.
func awaitCondition(ctx context.Context, patience time.Duration, so wait.ConditionWithContextFunc) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, so)
}

// server is a process that serves clusters over mTLS.
type server struct {
	*process.Process
	// url is the address for clusters. control is the address for commands of this program.
	url, control string
	direct       string
}

// binaryDir is the folder with the programs that were built. It is "" if none was built.
var binaryDir string

var makeBinaryDir = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bench")
	binaryDir = dir
	return dir, err
})

// brokerBinary, agentBinary and pluginBinary build their program when they are called first, and
// return its path. removeBinary must be called after all processes have ended.
var (
	brokerBinary = binary("broker")
	agentBinary  = binary("agent")
	pluginBinary = binary("kubectl-broker")
)

func binary(name string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := makeBinaryDir()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		// The build must not use the context of one study, because all studies share the
		// program.
		build := exec.CommandContext(context.Background(), "go", "build", "-o", path, "github.com/mehdiazizian/liqo-resource-broker/cmd/"+name)
		if out, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
		}
		return path, nil
	})
}

func removeBinary() error {
	if binaryDir == "" {
		return nil
	}
	return os.RemoveAll(binaryDir)
}

// startBroker runs a replica of the real broker. If elects is false, it is the only
// replica and takes part in no leader election.
func (s *site) startBroker(ctx context.Context, name string, elects bool) (*server, error) {
	path, err := brokerBinary()
	if err != nil {
		return nil, err
	}
	kubeconfig, err := s.plane.ServiceAccountKubeconfig(ctx, namespace, namespace)
	if err != nil {
		return nil, err
	}
	r, err := s.start(ctx, name, path, func(r *server, front, health, certificates string) []string {
		r.control = "http://" + health + "/readyz"
		args := []string{
			"--kubeconfig=" + kubeconfig, "--namespace=" + namespace, "--bind-address=" + front,
			"--cert-path=" + certificates, "--metrics-bind-address=0", "--health-probe-bind-address=" + health,
		}
		if elects {
			args = append(args, "--leader-elect", "--direct-bind-address="+r.direct, "--advertise-address="+r.direct)
		}
		return args
	})
	if err != nil {
		return nil, err
	}
	return r, s.awaitOpen(ctx, r)
}

// awaitOpen waits until a broker has read which clusters have access.
func (s *site) awaitOpen(ctx context.Context, r *server) error {
	c, err := s.caller("nobody", r.url)
	if err != nil {
		return err
	}
	return awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) { return c.ping(ctx) == nil, nil })
}

// startAnswerer runs the part of a broker that answers requests, without its controllers.
func (s *site) startAnswerer(ctx context.Context) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return s.start(ctx, answererCommand, self, func(r *server, front, health, certificates string) []string {
		r.control = "http://" + health
		return []string{
			answererCommand, "-kubeconfig=" + s.plane.Kubeconfig(), "-namespace=" + namespace,
			"-bind=" + front, "-control=" + health, "-certificates=" + certificates,
		}
	})
}

func (s *site) start(ctx context.Context, name, path string, arguments func(r *server, front, health, certificates string) []string) (*server, error) {
	front, err := s.address(name)
	if err != nil {
		return nil, err
	}
	direct, err := s.address(name + "-direct")
	if err != nil {
		return nil, err
	}
	health, err := s.address(name + "-health")
	if err != nil {
		return nil, err
	}
	pair, err := s.servers.IssueServer(nil, []net.IP{net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, err
	}
	certificates, err := s.saveCertificate(pair)
	if err != nil {
		return nil, err
	}
	r := &server{url: "https://" + front, direct: direct}
	args := arguments(r, front, health, certificates)
	return r, s.startServer(ctx, r, process.Spec{Name: name, Path: path, Args: args, Restart: true, Backoff: 200 * time.Millisecond})
}

// startServer starts the process of a server and waits until the server answers.
func (s *site) startServer(ctx context.Context, r *server, spec process.Spec) (err error) {
	spec.Layer = process.Controller
	if r.Process, err = s.plane.Processes().Start(spec); err != nil {
		return err
	}
	ready, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	return r.Await(ready, process.Answers(r.control))
}

// saveCertificate writes a certificate and the trusted CA certificates into a new folder.
func (s *site) saveCertificate(pair pki.KeyPair) (string, error) {
	dir, err := os.MkdirTemp(s.dir, "certificates")
	if err != nil {
		return "", err
	}
	return dir, pkitest.Save(dir, pair, s.servers.CertPEM(), s.agents.CertPEM())
}

// connect returns a transport to the broker, as the agent of a cluster uses it.
func (s *site) connect(id string, urls ...string) (*httptransport.Transport, error) {
	pair, err := s.agents.IssueClient(id, "bench.local")
	if err != nil {
		return nil, err
	}
	dir, err := s.saveCertificate(pair)
	if err != nil {
		return nil, err
	}
	files, err := pki.OpenFiles(dir, time.Now)
	if err != nil {
		return nil, err
	}
	c, err := httptransport.New(httptransport.Options{URLs: urls, Files: files})
	if err != nil {
		return nil, err
	}
	s.closers = append(s.closers, c.Close)
	return c, nil
}

// connectAll returns transports for n clusters with the IDs prefix-0 to prefix-(n-1).
func (s *site) connectAll(n int, prefix string, urls ...string) ([]*httptransport.Transport, error) {
	all := make([]*httptransport.Transport, n)
	for i := range all {
		var err error
		if all[i], err = s.connect(fmt.Sprintf("%s-%d", prefix, i), urls...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// pids returns the IDs of the processes of the control plane, of this program and of
// other servers.
func (s *site) pids(others ...*server) []int {
	pids := []int{os.Getpid()}
	for _, tool := range []toolchain.Tool{toolchain.Etcd, toolchain.APIServer} {
		if p, ok := s.plane.Processes().Process(tool.Name); ok {
			pids = append(pids, p.Pid())
		}
	}
	for _, r := range others {
		pids = append(pids, r.Pid())
	}
	return pids
}

// atSite returns a function that creates a site, runs a study on it and closes it.
func atSite(f func(ctx context.Context, s settings, t *table, at *site) error) func(context.Context, settings, *table) error {
	return func(ctx context.Context, s settings, t *table) error {
		at, err := newSite(ctx)
		if err != nil {
			return err
		}
		return errors.Join(f(ctx, s, t, at), at.close())
	}
}
