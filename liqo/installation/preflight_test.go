package installation_test

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/discovery"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/installation"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// The preflight reads the objects of Liqo's own chart on a real API server, with the shipped
// rights.
func TestLiqoIsChecked(t *testing.T) {
	plane := controlplanetest.Start(t)
	admin, err := client.New(plane.RESTConfig(), client.Options{})
	runtest.Check(t, err)
	kubeconfig := controlplanetest.InstallAgent(t, plane, admin, chart.AgentForProcess)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	runtest.Check(t, err)
	server, err := discovery.NewDiscoveryClientForConfig(config)
	runtest.Check(t, err)
	scheme := runtime.NewScheme()
	runtest.Check(t, clientgoscheme.AddToScheme(scheme))
	runtest.Check(t, object.AddToScheme(scheme))
	agent, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	runtest.Check(t, err)

	// down makes the network fail while it is true.
	var down error
	reader := interceptor.NewClient(agent, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if down != nil {
				return down
			}
			return c.Get(ctx, key, obj, opts...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(time.Now())
	preflight := installation.NewPreflight(server.RESTClient(), reader, reader, "liqo", clock)
	want := func(t *testing.T, reason, says string) {
		t.Helper()
		got := preflight.Condition(t.Context())
		if got.Type != agentv1alpha1.ConditionLiqoReady || got.Reason != reason || !strings.Contains(got.Message, says) {
			t.Errorf("condition %+v, want reason %s and %q", got, reason, says)
		}
	}
	later := func() { clock.SetTime(clock.Now().Add(time.Hour)) }

	want(t, agentv1alpha1.ReasonLiqoMissing, "(no API authentication.liqo.io/v1beta1)")

	_, kinds := renderLiqo(t, nil)
	runtest.Check(t, manifest.Install(t.Context(), admin, kinds))
	want(t, agentv1alpha1.ReasonLiqoMissing, "no API") // the next check is not due yet
	later()
	want(t, agentv1alpha1.ReasonLiqoHidden, `"liqo-controller-manager" not found`)

	const withoutNetworking = "without its networking module"
	for name, tc := range map[string]struct {
		values       map[string]any
		reason, says string
	}{
		"as it is by default": {nil, agentv1alpha1.ReasonLimitsNotEnforced, `Liqo v1.2.0 enforces limits "None"`},
		withoutNetworking: {
			map[string]any{"networking": map[string]any{"enabled": false}}, agentv1alpha1.ReasonLimitsNotEnforced, `Liqo v1.2.0 enforces limits "None"`,
		},
		"without quotas": {
			configured("enableResourceEnforcement", false), agentv1alpha1.ReasonLimitsNotEnforced, "does not enforce its quotas",
		},
		"as it should be": {configured("defaultLimitsEnforcement", "Hard"), agentv1alpha1.ReasonLiqoReady, "Liqo v1.2.0 enforces limits"},
		"an argument that comes later": {
			map[string]any{"common": map[string]any{"extraArgs": []any{"--default-limits-enforcement=Hard", "--enable-resource-enforcement=false"}}},
			agentv1alpha1.ReasonLimitsNotEnforced, "does not enforce its quotas",
		},
		"an older version": {map[string]any{"tag": "v1.1.0"}, agentv1alpha1.ReasonLiqoVersionUnsupported, "Liqo v1.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			deployments, _ := renderLiqo(t, tc.values)
			runtest.Check(t, client.IgnoreNotFound(admin.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace("liqo"))))
			runtest.Check(t, manifest.Install(t.Context(), admin, deployments))
			later()
			want(t, tc.reason, tc.says)
			seen, err := installation.ObserveInstallation(t.Context(), server.RESTClient(), agent, "liqo")
			if err != nil || seen.Networking != (name != withoutNetworking) {
				t.Errorf("its networking module runs: %t, %v", seen.Networking, err)
			}

			down = errors.New("connection refused")
			defer func() { down = nil }()
			later()
			want(t, tc.reason, tc.says)
		})
	}

	t.Run("a Deployment that is not available", func(t *testing.T) {
		deployments, _ := renderLiqo(t, configured("defaultLimitsEnforcement", "Hard"))
		runtest.Check(t, client.IgnoreNotFound(admin.DeleteAllOf(t.Context(), &appsv1.Deployment{}, client.InNamespace("liqo"))))
		runtest.Check(t, manifest.Install(t.Context(), admin, deployments))
		replicator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-crd-replicator"}}
		for status, reason := range map[corev1.ConditionStatus]string{
			corev1.ConditionFalse: agentv1alpha1.ReasonLiqoNotRunning, corev1.ConditionTrue: agentv1alpha1.ReasonLiqoReady,
		} {
			runtest.Check(t, admin.Get(t.Context(), client.ObjectKeyFromObject(replicator), replicator))
			replicator.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: status}}
			runtest.Check(t, admin.Status().Update(t.Context(), replicator))
			later()
			want(t, reason, "")
		}
	})
	t.Run("a network that failed from the beginning", func(t *testing.T) {
		preflight = installation.NewPreflight(server.RESTClient(), reader, reader, "liqo", clock)
		down = errors.New("connection refused")
		want(t, agentv1alpha1.ReasonLiqoHidden, "connection refused")
		down = nil
	})
	t.Run("without the right to look", func(t *testing.T) {
		runtest.Check(t, admin.Delete(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-resource-broker-agent-keys"},
		}))
		deadline := time.Now().Add(time.Minute)
		for {
			later()
			got := preflight.Condition(t.Context())
			if got.Reason == agentv1alpha1.ReasonLiqoHidden && strings.Contains(got.Message, "forbidden") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("the right is still there: %+v", got)
			}
			time.Sleep(50 * time.Millisecond)
		}
	})
}

func configured(name string, value any) map[string]any {
	return map[string]any{"controllerManager": map[string]any{"config": map[string]any{name: value}}}
}

// renderLiqo renders the Deployments and the kinds of Liqo's own chart.
func renderLiqo(t *testing.T, values map[string]any) (deployments, kinds []manifest.Object) {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/liqotech/liqo").Output()
	runtest.Check(t, err)
	loaded, err := chart.LoadDir(filepath.Join(strings.TrimSpace(string(folder)), "deployments", "liqo"))
	runtest.Check(t, err)
	all := map[string]any{"tag": "v1.2.0", "discovery": map[string]any{"config": map[string]any{"clusterID": "rome"}}}
	maps.Copy(all, values)
	rendered, err := chart.Render(loaded, chart.Release{Name: "liqo", Namespace: "liqo", Values: all})
	runtest.Check(t, err)
	for _, obj := range rendered.Objects {
		if obj.GetKind() == "Deployment" {
			obj.SetNamespace("liqo")
			deployments = append(deployments, obj)
		}
	}
	return deployments, rendered.CRDs
}
