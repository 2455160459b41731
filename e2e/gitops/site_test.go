package gitops

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/e2etest"
	"github.com/mehdiazizian/liqo-resource-broker/e2e/local"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/argocd"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/product"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/progress"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/release"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/toolchain"
)

// dirVariable is the folder for the playground's state, which is deleted first.
const dirVariable = "LRB_PLAYGROUND_DIR"

// releaseName is part of the names of the ports of Services.
const releaseName = "gitops"

// brokerName is the prefix of the names of the broker's objects.
const brokerName = "broker-liqo-resource-broker"

// ourPods selects the pods of the charts: their processes run, and KWOK does not simulate them.
const ourPods = "app.kubernetes.io/name in (liqo-resource-broker,liqo-resource-broker-agent)"

// site is a playground with Argo CD in the broker's cluster and nothing of the product.
type site struct {
	*e2e.Environment
	playground *playground.Playground
	kubelets   map[string]*release.Kubelet
	repository *repository
}

// newSite boots a playground and Argo CD, configured with our ConfigMap.
func newSite(t *testing.T) *site {
	t.Helper()
	ctx, report := t.Context(), progress.Func(func(step string) { t.Log(step) })
	tools, err := toolchain.New(report)
	e2etest.Check(t, err)
	e2etest.Check(t, tools.Ensure(ctx, argocd.Programs()...))
	binaries, err := local.BuildBinaries(ctx, local.Options{Progress: report})
	e2etest.Check(t, err)
	dir, err := playground.Dir(os.Getenv(dirVariable))
	e2etest.Check(t, err)
	e2etest.Check(t, playground.Remove(dir))
	members := playground.DefaultMembers()[:2]
	p, err := playground.Up(ctx, playground.Options{
		Dir: dir, Members: members, BrokerNodes: brokerNodes(), RealPods: ourPods, Progress: report,
	})
	e2etest.Check(t, err)
	t.Cleanup(func() { e2etest.Check(t, p.Stop()) })
	s := &site{
		playground: p, kubelets: map[string]*release.Kubelet{}, repository: newRepository(t, tools.Root()),
		Environment: &e2e.Environment{Members: map[string]*e2e.Cluster{}, BrokerNamespace: product.Namespace, InstructionNamespace: "default"},
	}
	s.connect(t, binaries)
	e2etest.Check(t, argocd.Start(ctx, p.Clusters[playground.BrokerCluster].ControlPlane, tools))
	s.configure(t, members)
	return s
}

func brokerNodes() []controlplane.Node {
	return []controlplane.Node{{Name: "broker-1", Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}}}
}

// connect connects to the clusters, and runs the pods of broker and agents there.
func (s *site) connect(t *testing.T, binaries product.Binaries) {
	t.Helper()
	for _, name := range s.playground.Names() {
		plane := s.playground.Clusters[name].ControlPlane
		c, err := e2e.NewCluster(name, plane.RESTConfig(), "")
		e2etest.Check(t, err)
		program := binaries.Agent
		if name == playground.BrokerCluster {
			s.Broker, program = c, binaries.Broker
		} else {
			s.Members[name] = c
		}
		s.kubelets[name], err = release.StartKubelet(t.Context(), release.Options{
			Cluster: plane, Name: releaseName, Namespace: product.Namespace, Programs: product.ProgramsOf(program),
		})
		e2etest.Check(t, err)
	}
}

// configure patches our ConfigMap into that of Argo CD, as the README says, and registers the members.
func (s *site) configure(t *testing.T, members []playground.Member) {
	t.Helper()
	text, err := os.ReadFile(s.repository.path("hack/gitops/argocd/argocd-cm.yaml"))
	e2etest.Check(t, err)
	patch, err := yaml.YAMLToJSON(text)
	e2etest.Check(t, err)
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: argocd.Namespace, Name: "argocd-cm"}}
	e2etest.Check(t, s.Broker.Patch(t.Context(), config, client.RawPatch(types.StrategicMergePatchType, patch)))
	for _, m := range members {
		e2etest.Check(t, s.Broker.Create(t.Context(), s.clusterSecret(t, m)))
	}
}

// memberLabel selects the clusters in which the ApplicationSets install.
const memberLabel = "liqo-resource-broker"

func clusterSecretName(member string) string { return "cluster-" + member }

// clusterSecret returns the Secret that makes a member known to Argo CD.
func (s *site) clusterSecret(t *testing.T, m playground.Member) *corev1.Secret {
	t.Helper()
	config := s.Member(m.Name).Config
	login, err := json.Marshal(map[string]any{"tlsClientConfig": map[string]any{
		"caData":   base64.StdEncoding.EncodeToString(config.CAData),
		"certData": base64.StdEncoding.EncodeToString(config.CertData),
		"keyData":  base64.StdEncoding.EncodeToString(config.KeyData),
	}})
	e2etest.Check(t, err)
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: argocd.Namespace, Name: clusterSecretName(m.Name),
			Labels: map[string]string{"argocd.argoproj.io/secret-type": "cluster", memberLabel: "member"},
			Annotations: map[string]string{
				"liqo-resource-broker/endpoint": config.Host, "liqo-resource-broker/region": m.Region,
			},
		},
		StringData: map[string]string{"name": m.Name, "server": config.Host, "config": string(login)},
	}
}

// brokerURL returns the address of a port of the broker's Service.
func (s *site) brokerURL(t *testing.T, port string) string {
	t.Helper()
	number, err := release.ServicePort(s.playground.Clusters[playground.BrokerCluster].ControlPlane, releaseName, brokerName, port)
	e2etest.Check(t, err)
	return fmt.Sprintf("https://127.0.0.1:%d", number)
}

// enrolment runs "broker enrol" for a member and returns the values that it prints.
func (s *site) enrolment(ctx context.Context, t *testing.T, member string) map[string]any {
	t.Helper()
	pods := s.kubelets[playground.BrokerCluster].Pods()
	if len(pods) == 0 {
		t.Fatal("no broker runs")
	}
	printed, err := product.Enrol(ctx, pods[0], member)
	e2etest.Check(t, err)
	return printed
}

// printLogs prints the ends of the logs of Argo CD.
func (s *site) printLogs(t *testing.T) {
	t.Helper()
	const limit = 6000
	logs, err := filepath.Glob(filepath.Join(s.playground.Clusters[playground.BrokerCluster].Dir(), "logs", "argocd-*.log"))
	e2etest.Check(t, err)
	for _, log := range logs {
		content, err := os.ReadFile(log)
		e2etest.Check(t, err)
		t.Logf("%s ends with:\n%s", log, content[max(0, len(content)-limit):])
	}
}
