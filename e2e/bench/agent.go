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
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
)

// agent is what keeping account of a large cluster takes.
var agent = atSite(func(ctx context.Context, s settings, t *table, at *site) error {
	kubeconfig, err := at.populate(s)
	if err != nil {
		return err
	}
	if err := at.accounting(ctx, s, t, kubeconfig); err != nil {
		return err
	}
	return nil
})

// populate has the control plane of the site look like that of a large cluster, to who
// reads this kubeconfig. It does not ask who that is.
func (s *site) populate(set settings) (kubeconfig string, err error) {
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
	c.Clusters["large"] = &clientcmdapi.Cluster{
		Server: front.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: front.Certificate().Raw}),
	}
	c.Contexts["large"] = &clientcmdapi.Context{Cluster: "large"}
	c.CurrentContext = "large"
	kubeconfig = filepath.Join(s.dir, "large.kubeconfig")
	return kubeconfig, clientcmd.WriteToFile(*c, kubeconfig)
}

// accounting compares the agent's accounts with a plain informer's cache, and has the
// agent's controller advertise.
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
		"%d times in %s, p99 %.0f µs", len(took), set.window, quantile(took, .99).Seconds()*1e6)
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
	if r.Process, err = s.plane.Processes().Start(process.Spec{
		Name: name, Path: self, Args: append([]string{accountantCommand, "-control=" + control}, args...), Layer: process.Controller,
	}); err != nil {
		return nil, err
	}
	ready, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return r, r.Await(ready, process.Answers(r.control))
}

// passes are how long so many advertisements took.
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

// memoryOf is what a process has of the machine's memory, now and at most so far, in MiB.
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
		kib, _ := strconv.ParseFloat(fields[1], 64) // other lines have three words, too
		switch fields[0] {
		case "VmRSS:":
			resident = kib / 1024
		case "VmHWM:":
			peak = kib / 1024
		}
	}
	return resident, peak, nil
}
