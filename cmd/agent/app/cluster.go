package app

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
)

// clusterConfig is the connection to the agent's own cluster.
func clusterConfig() (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to run in: give --kubeconfig, set KUBECONFIG or run in a pod: %w", err)
	}
	// The API server limits us by priority and fairness; a second limit here would
	// only add latency.
	config.QPS = -1
	return config, nil
}

func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, agentv1alpha1.AddToScheme, brokerv1alpha1.AddToScheme, liqo.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// directClient reads the API server itself, without a cache.
func directClient() (*rest.Config, client.Client, error) {
	config, err := clusterConfig()
	if err != nil {
		return nil, nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, nil, err
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, nil, fmt.Errorf("no connection to the cluster: %w", err)
	}
	return config, c, nil
}
