package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/view/viewtest"
)

// The plugin that a script calls takes the time from this variable, so that ages do not depend on how long the test runs.
const nowVariable = "TEST_NOW"

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"kubectl-broker": func() {
			now, err := time.Parse(time.RFC3339, os.Getenv(nowVariable))
			if err != nil {
				panic(err)
			}
			streams := genericiooptions.IOStreams{In: os.Stdin, Out: os.Stdout, ErrOut: os.Stderr}
			os.Exit(runAt(context.Background(), streams, os.Args, func() time.Time { return now }))
		},
	})
}

// Each script of testdata/script and testdata/edits runs the plugin against real API servers: those of the contexts broker, rome
// and empty.
func TestCommandsOnAPIServers(t *testing.T) {
	now := time.Now().UTC().Truncate(time.Second)
	kubeconfig := startClusters(t, now)
	t.Run("watch", func(t *testing.T) { testWatch(t, kubeconfig) })
	t.Run("console", func(t *testing.T) { testConsole(t, kubeconfig) })
	writeAccounts(t, kubeconfig)
	t.Run("costs in the console", func(t *testing.T) { testConsoleCosts(t, kubeconfig) })
	t.Run("audit", func(t *testing.T) { testAudit(t, kubeconfig) })
	t.Run("receipts", func(t *testing.T) { testReceipts(t, kubeconfig) })
	t.Run("audit log", func(t *testing.T) { testAuditLog(t, kubeconfig) })
	t.Run("audit log in the console", func(t *testing.T) { testConsoleAudit(t, kubeconfig) })
	// Scripts of one folder run at the same time, so those that change what others show come later.
	for _, dir := range []string{"script", "edits"} {
		t.Run(dir, func(t *testing.T) {
			testscript.Run(t, testscript.Params{
				Dir:           filepath.Join("testdata", dir),
				UpdateScripts: *update,
				Setup: func(env *testscript.Env) error {
					env.Setenv("KUBECONFIG", kubeconfig)
					env.Setenv("HOME", env.WorkDir)
					env.Setenv(nowVariable, now.Format(time.RFC3339))
					env.Setenv("ONE_MINUTE_AGO", now.Add(-time.Minute).Format(time.RFC3339))
					env.Setenv("THREE_MINUTES_AGO", now.Add(-3*time.Minute).Format(time.RFC3339))
					return nil
				},
			})
		})
	}
}

// startClusters boots three clusters: broker and rome, a member, with their CRDs and the objects of viewtest,
// and empty without CRDs. It returns a kubeconfig with a context for each, named like the cluster.
func startClusters(t *testing.T, now time.Time) string {
	t.Helper()
	config := clientcmd.NewDefaultClientConfigLoadingRules()
	config.Precedence = nil
	merged, err := config.Load()
	if err != nil {
		t.Fatal(err)
	}
	for name, crds := range map[string]func() (objects []manifest.Object, err error){
		"broker": func() ([]manifest.Object, error) { return manifest.ReadFS(charts.Broker(), "files/crds") },
		"rome":   func() ([]manifest.Object, error) { return manifest.ReadFS(charts.Agent(), "files/crds") },
		"empty":  func() ([]manifest.Object, error) { return nil, nil },
	} {
		plane := controlplanetest.Start(t, func(o *controlplane.Options) { o.Name = name })
		objects, err := crds()
		if err != nil {
			t.Fatal(err)
		}
		c, err := client.New(plane.RESTConfig(), client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := manifest.Install(t.Context(), c, objects); err != nil {
			t.Fatal(err)
		}
		one, err := clientcmd.LoadFromFile(plane.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		current := one.Contexts[one.CurrentContext]
		merged.Clusters[name], merged.AuthInfos[name] = one.Clusters[current.Cluster], one.AuthInfos[current.AuthInfo]
		current = current.DeepCopy()
		current.Cluster, current.AuthInfo = name, name
		merged.Contexts[name] = current
		for _, o := range map[string][]*unstructured.Unstructured{"broker": viewtest.Broker(t, now), "rome": viewtest.Member(t, now)}[name] {
			createWithStatus(t, c, o)
		}
	}
	merged.CurrentContext = "broker"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*merged, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// configOf connects to the cluster of a context.
func configOf(t *testing.T, kubeconfig, context string) *rest.Config {
	t.Helper()
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(
		&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig}, &clientcmd.ConfigOverrides{CurrentContext: context}).ClientConfig()
	runtest.Check(t, err)
	return config
}

func createWithStatus(t *testing.T, c client.Client, o *unstructured.Unstructured) {
	t.Helper()
	name := fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
	status, has := o.Object["status"]
	var err error
	for deadline := time.Now().Add(hangLimit); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		// A new namespace gets its default ServiceAccount, and a new CRD its handler, a moment later. Until
		// then, the API server refuses objects, so the creation is repeated.
		if err = c.Create(t.Context(), o); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !has {
		return
	}
	o.Object["status"] = status
	if err := c.Status().Update(t.Context(), o); err != nil {
		t.Fatalf("status of %s: %v", name, err)
	}
}
