package e2e

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
)

// Cluster is one cluster of an Environment. The client has the rights of an administrator.
type Cluster struct {
	// Name is the cluster ID. The broker's cluster has the name "broker".
	Name string
	client.Client
	Config *rest.Config
	// Log is the path of the product's log in this cluster, or a command that prints it.
	Log string
}

// Environment is the set of clusters in which a scenario runs.
type Environment struct {
	// Broker is the cluster in which the broker runs.
	Broker *Cluster
	// Members maps the IDs of the member clusters to the clusters.
	Members map[string]*Cluster
	// BrokerNamespace is the namespace in which the broker keeps its ClusterAdvertisements and Reservations.
	BrokerNamespace string
	// InstructionNamespace is the namespace in which agents keep their instructions.
	InstructionNamespace string
}

// NewCluster returns a Cluster with a client for it.
func NewCluster(name string, config *rest.Config, log string) (*Cluster, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, brokerv1alpha1.AddToScheme, agentv1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.WarningHandler = rest.NoWarnings{}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connecting to cluster %q: %w", name, err)
	}
	return &Cluster{Name: name, Client: c, Config: config, Log: log}, nil
}

// Member returns the member cluster with an ID. It panics if there is none.
func (e *Environment) Member(id string) *Cluster {
	c, ok := e.Members[id]
	if !ok {
		panic(fmt.Sprintf("the environment has no cluster %q", id))
	}
	return c
}

// Apply creates or updates the objects of a manifest, and returns them. It first calls each function in change with
// each object.
func (c *Cluster) Apply(ctx context.Context, text []byte, change ...func(*unstructured.Unstructured)) ([]*unstructured.Unstructured, error) {
	objects, err := manifest.Read(text)
	if err != nil {
		return nil, err
	}
	for _, obj := range objects {
		for _, f := range change {
			f(obj)
		}
		err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj), client.FieldOwner("e2e"), client.ForceOwnership)
		if err != nil {
			return nil, fmt.Errorf("applying %s %q in %s: %w", obj.GetKind(), obj.GetName(), c.Name, err)
		}
	}
	return objects, nil
}

// pollEvery is the shortest pause between two checks. It is short, because a local API server answers in about a
// millisecond. After a check that takes long, the pause is pollPause times as long as the check, so that polling does
// not slow down what it waits for.
const (
	pollEvery = 25 * time.Millisecond
	pollPause = 4
)

// Once makes Await check once, however long that takes: it is for what must still be so.
const Once time.Duration = 0

// Await calls check repeatedly until check returns "". If the time is over, the error says what check last waited
// for.
func Await(ctx context.Context, within time.Duration, check func(context.Context) (waitingFor string, err error)) error {
	if within == Once {
		waiting, err := check(ctx)
		if err == nil && waiting != "" {
			err = fmt.Errorf("want %s", waiting)
		}
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	waiting := "the first check"
	for {
		began := time.Now()
		now, err := check(ctx)
		if err == nil && now == "" {
			return nil
		}
		if ctx.Err() == nil {
			waiting = now
			if err != nil {
				waiting = err.Error()
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s still waiting: %s", within, waiting)
		case <-time.After(max(pollEvery, pollPause*time.Since(began))):
		}
	}
}
