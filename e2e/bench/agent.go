package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// agent measures what it costs an agent to count the usage of a large cluster.
var agent = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	kubeconfig, err := at.startPopulation(s)
	if err != nil {
		return err
	}
	if err := at.accounting(ctx, s, t, kubeconfig); err != nil {
		return err
	}
	return at.residence(ctx, s, t, kubeconfig)
})

// large is the ID of the cluster whose nodes and pods startPopulation simulates.
const large = "large"

// startPopulation starts a server that simulates the nodes and pods of a large cluster, in front of the site's
// control plane. It returns the path of a kubeconfig for the server, which needs no credentials.
func (s *site) startPopulation(set settings) (kubeconfig string, err error) {
	config := s.plane.RESTConfig()
	transport, err := rest.TransportFor(config)
	if err != nil {
		return "", err
	}
	target, err := url.Parse(config.Host)
	if err != nil {
		return "", err
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport, proxy.FlushInterval = transport, -1
	people, err := newPopulation(set, proxy)
	if err != nil {
		return "", err
	}
	front := httptest.NewUnstartedServer(people)
	front.EnableHTTP2 = true
	front.StartTLS()
	s.closers = append(s.closers, func() error { front.CloseClientConnections(); front.Close(); return nil })

	c := clientcmdapi.NewConfig()
	c.Clusters[large] = &clientcmdapi.Cluster{
		Server: front.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}),
	}
	c.Contexts[large] = &clientcmdapi.Context{Cluster: large}
	c.CurrentContext = large
	kubeconfig = filepath.Join(s.dir, large+".kubeconfig")
	return kubeconfig, clientcmd.WriteToFile(*c, kubeconfig)
}

// accounting compares the memory of the agent's accounts with that of a plain informer, and measures how long the
// agent takes to compute an advertisement.
func (s *site) accounting(ctx context.Context, set settings, t *table, kubeconfig string) error {
	accounts, err := s.startAccountant(ctx, "accounts", "-kubeconfig="+kubeconfig)
	if err != nil {
		return err
	}
	ours, err := accounts.heap(ctx)
	if err != nil {
		return err
	}
	took, err := accounts.passes(ctx, int(set.window/betweenPasses))
	if err != nil {
		return err
	}
	accounts.Kill()
	informer, err := s.startAccountant(ctx, "informer", "-kubeconfig="+kubeconfig, "-informer")
	if err != nil {
		return err
	}
	base, err := informer.heap(ctx)
	if err != nil {
		return err
	}
	informer.Kill()
	t.row(fmt.Sprintf("agent's accounts of %d pods ÷ plain informer cache, heap", set.pods), ours/base, atMost(.35, .02, ""),
		"%.1f MB with %d nodes ÷ %.0f MB of pods alone", ours, set.nodes, base)
	t.row("advertisement computed, median", quantile(took, .5).Seconds()*1e6, atMost(1000, 20, "µs"),
		"%d times in %s; the first, of all nodes, %.0f ms", len(took), set.window, milliseconds(took[0]))
	return nil
}

func (s *site) startAccountant(ctx context.Context, name string, args ...string) (*server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	control, err := s.address(name)
	if err != nil {
		return nil, err
	}
	r := &server{control: "http://" + control}
	return r, s.startServer(ctx, r, process.Spec{Name: name, Path: self, Args: append([]string{accountantCommand, "-control=" + control}, args...)})
}

// passes returns how long each of n advertisements took.
func (r *server) passes(ctx context.Context, n int) ([]time.Duration, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.control+"/advertise?n="+strconv.Itoa(n), nil)
	if err != nil {
		return nil, err
	}
	took, err := answerOf[[]time.Duration](http.DefaultClient.Do(request)) //nolint:bodyclose // answerOf closes it
	if err != nil {
		return nil, err
	}
	return *took, nil
}

// residence measures how much memory and CPU the real agent uses after it has advertised.
func (s *site) residence(ctx context.Context, set settings, t *table, kubeconfig string) error {
	broker, err := s.startBroker(ctx, "broker", false)
	if err != nil {
		return err
	}
	if err := s.installLiqo(ctx); err != nil {
		return fmt.Errorf("installing what the agent needs: %w", err)
	}
	agent, err := s.startAgent(ctx, kubeconfig, broker.url)
	if err != nil {
		return err
	}
	err = awaitCondition(ctx, waitTimeout, func(ctx context.Context) (bool, error) {
		err := s.Get(ctx, client.ObjectKey{Namespace: namespace, Name: large}, &brokerv1alpha1.ClusterAdvertisement{})
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting for the agent to advertise: %w", err)
	}
	sleep(ctx, set.window)
	used, err := cpuDuring([]int{agent.Pid()}, func() error { sleep(ctx, set.window); return ctx.Err() })
	if err != nil {
		return err
	}
	resident, peak, err := memoryOf(agent.Pid())
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d nodes, %d pods, %d events of pods a second", set.nodes, set.pods, set.podEvents)
	t.row("agent, resident memory", resident, atMost(200, 64, "MiB"), "%s; at most %.0f MiB, while it counted", what, peak)
	t.row("agent, CPU", used.cores()*1000, atMost(20, 10, "millicores"), "%s, in %s", what, set.window)
	return nil
}

// installLiqo installs the CRDs of Liqo that an agent reads. It does not run Liqo.
func (s *site) installLiqo(ctx context.Context) error {
	module, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/liqotech/liqo").Output()
	if err != nil {
		return fmt.Errorf("looking for the sources of Liqo: %w", err)
	}
	liqo, err := manifest.ReadFS(os.DirFS(strings.TrimSpace(string(module))), "deployments/liqo/charts/liqo-crds/crds")
	if err != nil {
		return err
	}
	ours, err := chart.AgentForProcess("agent", namespace)
	if err != nil {
		return err
	}
	if err := s.makeNamespace(ctx, "liqo"); err != nil {
		return err
	}
	if err := manifest.Install(ctx, s, slices.Concat(liqo, ours)); err != nil {
		return err
	}
	return s.Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-clusterid-configmap"}, Data: map[string]string{"CLUSTER_ID": large},
	})
}

// startAgent runs the real agent with the arguments from the chart.
func (s *site) startAgent(ctx context.Context, kubeconfig, broker string) (*server, error) {
	path, err := agentBinary()
	if err != nil {
		return nil, err
	}
	pair, err := s.agents.IssueClient(large, "bench.local")
	if err != nil {
		return nil, err
	}
	certificates, err := s.saveCertificate(pair)
	if err != nil {
		return nil, err
	}
	health, err := s.address("agent-health")
	if err != nil {
		return nil, err
	}
	r := &server{control: "http://" + health + "/readyz"}
	return r, s.startServer(ctx, r, process.Spec{
		Name: "agent", Path: path, Env: []string{"POD_NAMESPACE=" + namespace},
		Args: []string{
			"--kubeconfig=" + kubeconfig, "--broker-url=" + broker, "--broker-cert-path=" + certificates,
			"--metrics-bind-address=0", "--health-probe-bind-address=" + health,
		},
	})
}

// memoryOf returns the current and the largest resident memory of a process, in MiB.
func memoryOf(pid int) (resident, peak float64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		kib, _ := strconv.ParseFloat(fields[1], 64) // other lines may have three words too
		switch fields[0] {
		case "VmRSS:":
			resident = kib / 1024
		case "VmHWM:":
			peak = kib / 1024
		}
	}
	return resident, peak, nil
}
