package playground_test

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/charts"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// noAgent is the outbox of a consumer whose provider has no agent.
type noAgent struct{}

func (noAgent) SendMessage(context.Context, *v1.Message) error {
	return errors.New("there is no broker")
}

// TestPeeringWithAClusterWithoutAgent runs the consumer's part of an agent against a cluster that has real Liqo and no
// agent. The consumer has only the rights that the ClusterRole in config/samples grants.
func TestPeeringWithAClusterWithoutAgent(t *testing.T) {
	p, err := playground.Up(t.Context(), playground.Options{Dir: t.TempDir(), Members: playground.DefaultMembers()[:2]})
	runtest.Check(t, err)
	t.Cleanup(func() { runtest.Check(t, p.Stop()) })
	rome, paris := connectAs(t, p.Clusters["rome"].RESTConfig()), connectAs(t, p.Clusters["paris"].RESTConfig())
	kinds, err := manifest.ReadFS(charts.Agent(), "files/crds")
	runtest.Check(t, err)
	runtest.Check(t, manifest.Install(t.Context(), rome, kinds))

	outbox := outbox.NewOutbox(clock.RealClock{})
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan struct{})
	go func() { _ = outbox.Start(ctx); close(stopped) }()
	t.Cleanup(func() { stop(); <-stopped })
	limited := limitedTo(t, p.Clusters["paris"], paris)
	peering := liqo.New(liqo.Options{
		ClusterID: "rome", InstructionNamespace: "default", LiqoNamespace: "liqo", Clock: clock.RealClock{}, Client: rome, Reader: rome, Messenger: noAgent{}, Outbox: outbox,
		Sign:   func(payload []byte) ([]byte, error) { return payload, nil },
		Verify: func([]byte) (string, []byte, error) { return "", nil, errors.New("no signer") },
		Remote: func(string) (client.Client, error) { return limited, nil },
	})

	inst := &agentv1alpha1.ReservationInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "res-a-1", Finalizers: []string{agentv1alpha1.PeeringFinalizer}},
		Spec: agentv1alpha1.ReservationInstructionSpec{
			ReservationName: "res-a", Placement: 1, TargetClusterID: "paris", Unattended: true,
			Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")},
		},
	}
	runtest.Check(t, rome.Create(t.Context(), inst))
	consume(t, rome, peering, inst, func(s plan.ConsumerState) bool { return s.NodeReady.True })
	node := &corev1.Node{}
	runtest.Check(t, rome.Get(t.Context(), client.ObjectKey{Name: "res-a-1"}, node))
	if got := node.Status.Allocatable.Cpu().String(); got != "1" {
		t.Errorf("the virtual node has %s cores, want 1", got)
	}

	inst.Spec.Release = true
	runtest.Check(t, rome.Update(t.Context(), inst))
	consume(t, rome, peering, inst, func(s plan.ConsumerState) bool { return s.Done })
	departed, err := peering.DepartConsumer(t.Context(), inst)
	if !departed || err != nil {
		t.Errorf("departed: %v, %v", departed, err)
	}
	for name, c := range map[string]client.Client{"rome": rome, "paris": paris} {
		for _, kind := range []schema.GroupVersionKind{
			{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "TenantList"},
			{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "IdentityList"},
			{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSliceList"},
			{Group: "core.liqo.io", Version: "v1beta1", Kind: "ForeignClusterList"},
		} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(kind)
			runtest.Check(t, c.List(t.Context(), list))
			if len(list.Items) > 0 {
				t.Errorf("%s: %d left in a %s", name, len(list.Items), kind.Kind)
			}
		}
	}
}

// consume does what the agent's controller does, until done returns true.
func consume(t *testing.T, c client.Client, peering *liqo.Peering, inst *agentv1alpha1.ReservationInstruction, done func(plan.ConsumerState) bool) {
	t.Helper()
	var state plan.ConsumerState
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 90*time.Second, true, func(ctx context.Context) (_ bool, err error) {
		if err = c.Get(ctx, client.ObjectKeyFromObject(inst), inst); err == nil {
			state, err = peering.Consume(ctx, inst)
		}
		return err == nil && done(state), nil //nolint:nilerr // conflicts are retried like any other error
	})
	if err != nil {
		t.Fatalf("%v: %+v", err, state)
	}
}

// limitedTo returns a client with only the rights that the ClusterRole in config/samples grants.
func limitedTo(t *testing.T, cluster *playground.Cluster, admin client.Client) client.Client {
	t.Helper()
	text, err := os.ReadFile("../../config/samples/rbac_v1_clusterrole_kubeconfig.yaml")
	runtest.Check(t, err)
	role, err := manifest.Read(text)
	runtest.Check(t, err)
	runtest.Check(t, manifest.Apply(t.Context(), admin, role))
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rome"}}
	runtest.Check(t, admin.Create(t.Context(), account))
	runtest.Check(t, admin.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "rome-kubeconfig"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role[0].GetName()},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: account.Namespace, Name: account.Name}},
	}))
	path, err := cluster.ServiceAccountKubeconfig(t.Context(), account.Namespace, account.Name)
	runtest.Check(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", path)
	runtest.Check(t, err)
	return connectAs(t, config)
}

func connectAs(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, agentv1alpha1.AddToScheme, object.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	runtest.Check(t, err)
	return c
}
