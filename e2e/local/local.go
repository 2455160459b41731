// Package local runs the scenarios of package e2e in the playground, in which it installs the product.
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
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// Options are the options of an Environment.
type Options struct {
	// Dir is the folder for the state. If it is empty, the playground uses its default.
	Dir string
	// Progress receives the steps of the start. If it is nil, they are discarded.
	Progress progress.Reporter
	// Race builds the broker and the agent with the race detector.
	Race bool
	// Backoff is the longest pause before a crashed broker or agent is restarted. If it is zero, the playground
	// uses its default.
	Backoff time.Duration
}

// Environment is a running playground with the broker and the agents.
type Environment struct {
	*e2e.Environment
	Playground *playground.Playground
	Product    *product.Product
	// Plugins is the path of the folder that contains kubectl-broker. With Options.Race, it does not contain it.
	Plugins string
}

// prices are the prices of the clusters. They differ, and berlin's GPUs are expensive.
var prices = map[string]product.Price{
	"rome":   {CPU: "0.040", Memory: "0.005", Currency: "EUR"},
	"paris":  {CPU: "0.032", Memory: "0.004", Currency: "EUR"},
	"berlin": {CPU: "0.048", Memory: "0.006", GPU: "0.95", Currency: "EUR"},
}

// Up builds what is missing, starts the playground and installs the product in it. The caller must call Stop.
func Up(ctx context.Context, o Options) (_ *Environment, err error) {
	if o.Progress == nil {
		o.Progress = progress.Discard
	}
	binaries, err := BuildBinaries(ctx, o)
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
	return &Environment{Environment: env, Playground: p, Product: running, Plugins: filepath.Dir(binaries.Broker)}, nil
}

// Stop ends all processes and keeps the state.
func (e *Environment) Stop() error { return e.Playground.Stop() }

// Clusters returns the clusters of the playground.
func (e *Environment) Clusters() *e2e.Environment { return e.Environment }

// Logs returns the paths of the log files of the broker and the agents.
func (e *Environment) Logs() []string {
	var logs []string
	for _, name := range e.Playground.Names() {
		for _, pod := range e.Product.Pods(name) {
			logs = append(logs, pod.Process().Log())
		}
	}
	return logs
}

// Transport returns a transport to the broker that uses the certificate of a cluster's agent.
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

// Certificate returns the certificate of a cluster's agent and its key.
func (e *Environment) Certificate(id string) (*pki.Files, error) {
	return pki.OpenFiles(e.Product.Pods(id)[0].Volume("tls"), time.Now)
}

// Names of the environment variables that UpForTests reads.
const (
	// dirVariable is the folder for the playground's state. If it is not set, the playground uses its default.
	dirVariable = "LRB_PLAYGROUND_DIR"
	// raceVariable turns on the race detector in the broker and the agents if its value is 1.
	raceVariable = "LRB_E2E_RACE"
)

// UpForTests calls Up with options from environment variables. Crashed processes are restarted after at most 200
// ms.
func UpForTests(ctx context.Context, report func(step string)) (*Environment, error) {
	options := Options{
		Dir: os.Getenv(dirVariable), Race: os.Getenv(raceVariable) == "1", Backoff: 200 * time.Millisecond,
		Progress: progress.Func(report),
	}
	env, err := Up(ctx, options)
	if options.Dir == "" || !errors.Is(err, controlplane.ErrPortTaken) {
		return env, err
	}
	// Since the playground stopped, another test has taken one of its ports. Tests leave nothing in a playground, so a
	// new one serves as well.
	report(err.Error())
	if err := playground.Remove(options.Dir); err != nil {
		return nil, err
	}
	return Up(ctx, options)
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

// BuildBinaries compiles the broker and the agent of the checkout. Without Options.Race, it also compiles the
// kubectl plugin into the same folder.
func BuildBinaries(ctx context.Context, o Options) (product.Binaries, error) {
	tools, err := toolchain.New(o.Progress)
	if err != nil {
		return product.Binaries{}, err
	}
	o.Progress.Plan(1)
	end := o.Progress.Begin("build broker and agent")
	defer end()
	dir, args := filepath.Join(tools.Root(), "bin"), []string{"build", "-ldflags=-s -w"}
	if o.Race {
		dir, args = filepath.Join(dir, "race"), append(args, "-race")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return product.Binaries{}, err
	}
	args = append(args, "-o", dir+"/", "./cmd/broker", "./cmd/agent")
	if !o.Race {
		args = append(args, "./cmd/kubectl-broker") // for people; tests of the playground do not call it
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = tools.Root()
	if out, err := cmd.CombinedOutput(); err != nil {
		return product.Binaries{}, fmt.Errorf("building broker and agent: %w\n%s", err, out)
	}
	return product.Binaries{Broker: filepath.Join(dir, "broker"), Agent: filepath.Join(dir, "agent")}, nil
}
