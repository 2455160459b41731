// Package local runs the scenarios of package e2e in the playground, with the product installed.
package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport"
	httptransport "github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/http"
	"github.com/mehdiazizian/liqo-resource-broker/internal/pki"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Options of an environment.
type Options struct {
	// Dir is the folder for the state; the playground's default if empty.
	Dir string
	// Progress receives the steps; nil discards them.
	Progress progress.Reporter
	// Race builds broker and agent with the race detector.
	Race bool
	// Backoff is the longest pause before a crashed broker or agent is restarted; the playground's default if zero.
	Backoff time.Duration
}

// Environment is a running playground with broker and agents.
type Environment struct {
	*e2e.Environment
	Playground *playground.Playground
	Product    *product.Product
}

// prices give the clusters different costs: berlin's GPUs are expensive.
var prices = map[string]product.Price{
	"rome":   {CPU: "0.040", Memory: "0.005", Currency: "EUR"},
	"paris":  {CPU: "0.032", Memory: "0.004", Currency: "EUR"},
	"berlin": {CPU: "0.048", Memory: "0.006", GPU: "0.95", Currency: "EUR"},
}

// Up builds what is missing, boots the playground and runs the product in it. The caller must call Stop.
func Up(ctx context.Context, o Options) (_ *Environment, err error) {
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	binaries, err := buildBinaries(ctx, o)
	if err != nil {
		return nil, err
	}
	p, err := playground.Up(ctx, playground.Options{Dir: o.Dir, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Stop())
		}
	}()
	o.Progress.Plan(1)
	end := o.Progress.Begin("broker and agents")
	options := product.Options{
		Broker: p.Clusters[playground.BrokerCluster].ControlPlane, Binaries: binaries, Backoff: o.Backoff,
	}
	for _, m := range playground.DefaultMembers() {
		options.Members = append(options.Members, product.Member{
			ControlPlane: p.Clusters[m.Name].ControlPlane, Region: m.Region, Price: prices[m.Name], Carried: m.Name == "berlin",
		})
	}
	running, err := product.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	end()
	env, err := environment(p, running)
	if err != nil {
		return nil, err
	}
	return &Environment{Environment: env, Playground: p, Product: running}, nil
}

// Stop ends everything and keeps the state.
func (e *Environment) Stop() error { return e.Playground.Stop() }

// Clusters returns the clusters of the playground.
func (e *Environment) Clusters() *e2e.Environment { return e.Environment }

// Logs returns the log files of broker and agents.
func (e *Environment) Logs() []string {
	var logs []string
	for _, name := range e.Playground.Names() {
		for _, pod := range e.Product.Pods(name) {
			logs = append(logs, pod.Process().Log())
		}
	}
	return logs
}

// Transport returns a transport to the broker with the certificate of a cluster's agent.
func (e *Environment) Transport(id string) (transport.Transport, error) {
	files, err := e.Certificate(id)
	if err != nil {
		return nil, err
	}
	url, err := e.Product.URL()
	if err != nil {
		return nil, err
	}
	return httptransport.New(httptransport.Options{URLs: []string{url}, Files: files, UserAgent: "e2e"})
}

// Certificate returns the certificate of a cluster's agent, with its key.
func (e *Environment) Certificate(id string) (*pki.Files, error) {
	return pki.OpenFiles(e.Product.Pods(id)[0].Volume("tls"), time.Now)
}

// Environment variables that UpForTests reads.
const (
	// dirVariable is the folder for the playground's state; by default the one of the checkout.
	dirVariable = "LRB_PLAYGROUND_DIR"
	// raceVariable, if 1, builds broker and agents with the race detector.
	raceVariable = "LRB_E2E_RACE"
)

// UpForTests calls Up with the options from the environment. Crashed processes restart soon.
func UpForTests(ctx context.Context, report func(step string)) (*Environment, error) {
	return Up(ctx, Options{
		Dir: os.Getenv(dirVariable), Race: os.Getenv(raceVariable) == "1", Backoff: 200 * time.Millisecond,
		Progress: progress.Func(report),
	})
}

func environment(p *playground.Playground, running *product.Product) (*e2e.Environment, error) {
	env := &e2e.Environment{Members: map[string]*e2e.Cluster{}, BrokerNamespace: product.Namespace, InstructionNamespace: "default"}
	for _, name := range p.Names() {
		c, err := e2e.NewCluster(name, p.Clusters[name].RESTConfig(), running.Process(name).Log())
		if err != nil {
			return nil, err
		}
		if name == playground.BrokerCluster {
			env.Broker = c
		} else {
			env.Members[name] = c
		}
	}
	return env, nil
}

// buildBinaries compiles broker and agent from the checkout.
func buildBinaries(ctx context.Context, o Options) (product.Binaries, error) {
	tools, err := toolchain.New(o.Progress)
	if err != nil {
		return product.Binaries{}, err
	}
	o.Progress.Plan(1)
	end := o.Progress.Begin("build broker and agent")
	defer end()
	dir, args := filepath.Join(tools.Root(), "bin"), []string{"build"}
	if o.Race {
		dir, args = filepath.Join(dir, "race"), append(args, "-race")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return product.Binaries{}, err
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", dir+"/", "./cmd/broker", "./cmd/agent")...)
	cmd.Dir = tools.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return product.Binaries{}, fmt.Errorf("building broker and agent: %w\n%s", err, out)
	}
	return product.Binaries{Broker: filepath.Join(dir, "broker"), Agent: filepath.Join(dir, "agent")}, nil
}
