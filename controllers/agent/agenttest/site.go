// Package agenttest runs controllers of the agent against an API server, with exactly the rights that the chart gives
// the agent. They run in a process of their own if a test kills them.
package agenttest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// kubeconfigVariable is the environment variable that makes a test's program run controllers in place of tests.
const kubeconfigVariable = "LRB_TEST_AGENT_KUBECONFIG"

// Main is TestMain of tests that start agents with Site.Agent. In the process of such an agent, it runs what setup adds
// to a manager until the process is interrupted.
func Main(m *testing.M, setup func(ctrl.Manager) error) {
	kubeconfig := os.Getenv(kubeconfigVariable)
	if kubeconfig == "" {
		os.Exit(m.Run())
	}
	if err := runAgent(kubeconfig, setup); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runAgent(kubeconfig string, setup func(ctrl.Manager) error) error {
	ctrl.SetLogger(zap.New(zap.UseDevMode(true)))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	mgr, err := NewManager(config)
	if err != nil {
		return err
	}
	if err := setup(mgr); err != nil {
		return err
	}
	return mgr.Start(ctrl.SetupSignalHandler())
}

// NewManager returns a manager that serves no metrics.
func NewManager(config *rest.Config) (ctrl.Manager, error) {
	return ctrl.NewManager(config, ctrl.Options{Scheme: newScheme(), Metrics: server.Options{BindAddress: "0"}})
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, agentv1alpha1.AddToScheme, autoscaling.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Site is a cluster in which the agent's chart is installed without its pods. Its client has all rights.
type Site struct {
	client.Client
	kubeconfig string
}

// Start starts a cluster and installs the chart in it, see controlplanetest.InstallAgent.
func Start(t *testing.T, render func(name, namespace string) ([]manifest.Object, error), namespaces ...string) *Site {
	t.Helper()
	plane := controlplanetest.Start(t)
	admin, err := client.New(plane.RESTConfig(), client.Options{Scheme: newScheme()})
	runtest.Check(t, err)
	return &Site{admin, controlplanetest.InstallAgent(t, plane, admin, render, namespaces...)}
}

// Agent returns an agent, with more environment variables, that is not started yet.
func (s *Site) Agent(t *testing.T, env ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(append(os.Environ(), kubeconfigVariable+"="+s.kubeconfig), env...)
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	return cmd
}

// Limited returns a client with the rights of the agent, and its configuration.
func (s *Site) Limited(t *testing.T) (client.Client, *rest.Config) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig)
	runtest.Check(t, err)
	limited, err := client.New(config, client.Options{Scheme: s.Scheme()})
	runtest.Check(t, err)
	return limited, config
}

// Install creates the objects in a file.
func (s *Site) Install(t *testing.T, file string) {
	t.Helper()
	text, err := os.ReadFile(file)
	runtest.Check(t, err)
	objects, err := manifest.Read(text)
	runtest.Check(t, err)
	runtest.Check(t, manifest.Install(t.Context(), s, objects))
}

// Requests returns the ResourceRequests that an object controls.
func (s *Site) Requests(ctx context.Context, owner client.Object) ([]agentv1alpha1.ResourceRequest, error) {
	var list agentv1alpha1.ResourceRequestList
	if err := s.List(ctx, &list, client.InNamespace(owner.GetNamespace())); err != nil {
		return nil, err
	}
	var owned []agentv1alpha1.ResourceRequest
	for _, rr := range list.Items {
		if metav1.IsControlledBy(&rr, owner) {
			owned = append(owned, rr)
		}
	}
	return owned, nil
}
