package liqo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/process"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var rome = settings{
	clusterID: "rome", apiURL: "https://127.0.0.1:26443", podCIDR: "10.202.0.0/16", serviceCIDR: "10.203.0.0/16",
	labels: map[string]string{corev1.LabelTopologyRegion: "eu-south"},
	ports:  ports{webhook: 26001, webhookHealth: 26002, webhookMetrics: 26003, controllerHealth: 26004, controllerMetrics: 26005, replicatorMetrics: 26006},
}

func renderRome(t *testing.T) *release {
	t.Helper()
	tools, err := toolchain.New(progress.Discard)
	runtest.Check(t, err)
	source, err := tools.ModuleDir(t.Context(), toolchain.LiqoWebhook.Module, "github.com/liqotech/liqo")
	runtest.Check(t, err)
	r, err := renderChart(filepath.Join(source, "deployments", "liqo"), rome)
	runtest.Check(t, err)
	return r
}

func TestChartRunsAsProcesses(t *testing.T) {
	r := renderRome(t)
	l := &Liqo{cluster: Cluster{Binaries: Binaries{ControllerManager: "/bin/manager", CRDReplicator: "/bin/replicator", Webhook: "/bin/webhook"}}}
	got := map[string]process.Spec{}
	for _, d := range r.deployments {
		spec, err := l.spec(&d.Spec.Template.Spec.Containers[0], map[string]string{"CLUSTER_ID": "rome", "POD_NAMESPACE": Namespace}, "/rome.kubeconfig")
		runtest.Check(t, err)
		got[d.Name] = spec
	}
	tests := map[string]struct {
		path string
		args []string
	}{
		"liqo-controller-manager": {"/bin/manager", []string{
			"--cluster-id=rome", "--liqo-namespace=liqo", "--networking-enabled=false",
			"--metrics-address=127.0.0.1:26005", "--health-probe-address=127.0.0.1:26004"}},
		"liqo-crd-replicator": {"/bin/replicator", []string{"--metrics-address=127.0.0.1:26006"}},
		"liqo-webhook": {"/bin/webhook", []string{
			"--webhook-port=26001", "--cluster-id=rome", "--secret-name=liqo-webhook-certs",
			"--metrics-address=127.0.0.1:26003", "--health-probe-address=127.0.0.1:26002"}},
	}
	if len(got) != len(tests) {
		t.Errorf("the chart renders %d Deployments, want %d", len(got), len(tests))
	}
	for name, test := range tests {
		spec := got[name]
		if spec.Path != test.path {
			t.Errorf("%s runs %q, want %q", name, spec.Path, test.path)
		}
		for _, arg := range test.args {
			if !slices.Contains(spec.Args, arg) {
				t.Errorf("%s lacks %q: %q", name, arg, spec.Args)
			}
		}
		if args := strings.Join(spec.Args, " "); strings.Contains(args, "$(") {
			t.Errorf("%s has arguments that were not filled in: %s", name, args)
		}
		if !slices.Contains(spec.Env, "KUBECONFIG=/rome.kubeconfig") || !spec.Restart {
			t.Errorf("%s: environment %q, restarted %v", name, spec.Env, spec.Restart)
		}
	}
}

func TestChartIsRenderedWithoutNetworking(t *testing.T) {
	r := renderRome(t)
	if got := len(r.crds); got != 28 {
		t.Errorf("%d CRDs, want 28", got)
	}
	for _, obj := range r.objects {
		switch obj.GetKind() {
		case "DaemonSet", "CronJob", "Job", "Network", "FirewallConfiguration":
			t.Errorf("%s %q is rendered", obj.GetKind(), obj.GetName())
		}
	}
}

func TestRenderingIsDeterministic(t *testing.T) {
	first, err := renderRome(t).digest()
	runtest.Check(t, err)
	second, err := renderRome(t).digest()
	runtest.Check(t, err)
	if first != second {
		t.Error("two renderings differ: a kept cluster would be installed again at every boot")
	}
}

func TestVersionIsPinned(t *testing.T) {
	tools, err := toolchain.New(progress.Discard)
	runtest.Check(t, err)
	pins, err := os.ReadFile(filepath.Join(tools.Root(), "hack", "liqo", "go.mod"))
	runtest.Check(t, err)
	if !strings.Contains(string(pins), "github.com/liqotech/liqo "+Version+"\n") {
		t.Errorf("hack/liqo/go.mod does not pin Liqo %s", Version)
	}
}

func TestVariablesInArgumentsAreExpanded(t *testing.T) {
	env := map[string]string{"POD_IP": "127.0.0.1", "NAME": "resv-1"}
	tests := map[string]string{
		"--node-ip=$(POD_IP)":       "--node-ip=127.0.0.1",
		"$(NAME)/$(POD_IP)":         "resv-1/127.0.0.1",
		"--unknown=$(UNKNOWN_NAME)": "--unknown=$(UNKNOWN_NAME)",
	}
	for arg, want := range tests {
		if diff := cmp.Diff(want, expandVariables(arg, env)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", arg, diff)
		}
	}
}
