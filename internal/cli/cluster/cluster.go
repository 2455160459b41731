// Package cluster connects the programs of this product to a Kubernetes cluster: the one that
// --kubeconfig names, or the one that the program runs in.
package cluster

import (
	"cmp"
	"flag"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// BindKubeconfig adds the flag --kubeconfig, which Config reads. controller-runtime has already
// defined this flag for the Go package flag.
func BindKubeconfig(fs *pflag.FlagSet) {
	fs.AddGoFlag(flag.CommandLine.Lookup("kubeconfig"))
}

// Namespace returns the pod's namespace from POD_NAMESPACE, or "default" outside a pod.
func Namespace() string {
	return cmp.Or(os.Getenv("POD_NAMESPACE"), "default")
}

// Config returns the client configuration for the cluster.
func Config() (*rest.Config, error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return nil, fmt.Errorf("no cluster to run in: give --kubeconfig, set KUBECONFIG or run in a pod: %w", err)
	}
	// There is no client-side rate limit, because the API server limits its clients itself and a
	// second limit would only add latency.
	config.QPS = -1
	return config, nil
}

// NewScheme returns a scheme with the types of Kubernetes and the types that the given functions
// add.
func NewScheme(added ...func(*runtime.Scheme) error) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	for _, add := range append(added, clientgoscheme.AddToScheme) {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return scheme, nil
}

// RunOnce returns the body of a cobra command that connects to the cluster, calls do once and ends.
// The client that it passes to do reads from the API server, without a cache.
func RunOnce(
	kinds func() (*runtime.Scheme, error),
	do func(cmd *cobra.Command, args []string, config *rest.Config, c client.Client) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		config, err := Config()
		if err != nil {
			return err
		}
		scheme, err := kinds()
		if err != nil {
			return err
		}
		c, err := client.New(config, client.Options{Scheme: scheme})
		if err != nil {
			return fmt.Errorf("no connection to the cluster: %w", err)
		}
		return do(cmd, args, config, c)
	}
}
