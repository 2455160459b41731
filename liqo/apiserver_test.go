package liqo_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/manifest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/plan"
)

// These tests drain a virtual node on a real API server, with the shipped rights and policy. No
// controllers run there: the tests act as the kubelet, the disruption controller and the broker.

const (
	reservation = "res-aaaaaaaaaa"
	nodeName    = reservation + "-1"
)

// member is a cluster with an ended placement, and a client with an administrator's rights.
type member struct {
	client.Client
	*testing.T
	// agent is a client with the shipped rights.
	agent   client.Client
	peering *liqo.Peering
	clock   *clocktesting.FakePassiveClock
	// config belongs to the administrator.
	config *rest.Config
}

func startMember(t *testing.T) *member {
	m := startCluster(t)
	m.restart()
	m.populate()
	return m
}

// startCluster starts a cluster with Liqo's kinds and the agent's rights.
func startCluster(t *testing.T) *member {
	t.Helper()
	plane := controlplanetest.Start(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, rbacv1.AddToScheme, policyv1.AddToScheme, agentv1alpha1.AddToScheme, object.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	admin, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	runtest.Check(t, err)
	m := &member{Client: admin, T: t, clock: clocktesting.NewFakePassiveClock(time.Now().Truncate(time.Second)), config: plane.RESTConfig()}
	m.check(manifest.Install(t.Context(), admin, m.kindsOfLiqo()))
	rights, err := clientcmd.BuildConfigFromFlags("", controlplanetest.InstallAgent(t, plane, admin, chart.AgentForProcess))
	m.check(err)
	rights.QPS = -1
	m.agent, err = client.New(rights, client.Options{Scheme: scheme})
	m.check(err)
	return m
}

func (m *member) kindsOfLiqo() (kinds []manifest.Object) {
	m.Helper()
	folder, err := exec.CommandContext(m.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/liqotech/liqo").Output()
	m.check(err)
	for _, group := range []string{"authentication", "core", "offloading", "networking", "ipam"} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(folder)), "deployments/liqo/charts/liqo-crds/crds", group+".liqo.io_*.yaml"))
		m.check(err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			m.check(err)
			read, err := manifest.Read(text)
			m.check(err)
			kinds = append(kinds, read...)
		}
	}
	return kinds
}

// restart replaces the agent, so that its memory is lost.
func (m *member) restart() {
	m.Helper()
	nobody := errors.New("nobody is there")
	m.peering = liqo.New(liqo.Options{
		ClusterID: "rome", InstructionNamespace: "default", LiqoNamespace: "liqo", Client: m.agent, Reader: m.agent,
		Messenger: deaf{}, Outbox: outbox.NewOutbox(clock.RealClock{}),
		Sign:   func([]byte) ([]byte, error) { return nil, nobody },
		Verify: func([]byte) (string, []byte, error) { return "", nil, nobody },
		Clock:  m.clock, DrainTimeout: 5 * time.Minute,
	})
}

type deaf struct{}

func (deaf) SendMessage(context.Context, *v1.Message) error { return nil }

// populate creates the objects of a placement as the agent and Liqo would.
func (m *member) populate() {
	m.Helper()
	peer := map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue, consts.RemoteClusterID: "paris"}
	tenant := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.TenantNamespaceName("paris"), Labels: map[string]string{
		agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue, consts.RemoteClusterID: "paris", consts.TenantNamespaceLabel: "true",
	}}}
	m.create(tenant)
	m.create(&authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Name, Name: nodeName, Labels: peer}})
	for _, name := range []string{"demo", "closed"} {
		m.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
		m.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	}
	m.create(&offloadingv1beta1.NamespaceOffloading{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: object.OffloadingName},
		Spec: offloadingv1beta1.NamespaceOffloadingSpec{
			NamespaceMappingStrategy: offloadingv1beta1.DefaultNameMappingStrategyType, PodOffloadingStrategy: offloadingv1beta1.LocalPodOffloadingStrategyType,
			ClusterSelector: corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{}},
		},
	})
	for _, name := range []string{nodeName, "worker"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if name == nodeName {
			node.Labels = map[string]string{consts.TypeLabel: consts.TypeNode}
		}
		m.create(node)
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		m.check(m.Status().Update(m.Context(), node))
	}
	m.create(&agentv1alpha1.ReservationInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: nodeName},
		Spec:       agentv1alpha1.ReservationInstructionSpec{ReservationName: reservation, Placement: 1, TargetClusterID: "paris", Resources: corev1.ResourceList{}, Release: true},
	})
}

func (m *member) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

func (m *member) create(obj client.Object) {
	m.Helper()
	m.check(m.Create(m.Context(), obj))
}

// run creates a pod that is bound to a node.
func (m *member) run(namespace, name, node string, change ...func(*corev1.Pod)) *corev1.Pod {
	m.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "web", Image: "web"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}},
	}
	for _, f := range change {
		f(pod)
	}
	m.create(pod)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	m.check(m.Status().Update(m.Context(), pod))
	return pod
}

// guard creates a disruption budget; allow does the part of the disruption controller.
func (m *member) guard() (allow func(disruptions int32)) {
	m.Helper()
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
	}
	m.create(budget)
	return func(disruptions int32) {
		m.Helper()
		m.check(m.Get(m.Context(), client.ObjectKeyFromObject(budget), budget))
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, DisruptionsAllowed: disruptions,
			CurrentHealthy: 1 + disruptions, DesiredHealthy: 1, ExpectedPods: 2,
		}
		m.check(m.Status().Update(m.Context(), budget))
	}
}

// end deletes ended pods, as the kubelet of the virtual node does.
func (m *member) end(pods ...*corev1.Pod) {
	m.Helper()
	for _, pod := range pods {
		m.check(client.IgnoreNotFound(m.Delete(m.Context(), pod, client.GracePeriodSeconds(0))))
	}
}

// look makes the agent process the placement after a wait.
func (m *member) look(wait time.Duration) plan.ConsumerState {
	m.Helper()
	m.clock.SetTime(m.clock.Now().Add(wait))
	inst := &agentv1alpha1.ReservationInstruction{}
	m.check(m.Get(m.Context(), client.ObjectKey{Namespace: "default", Name: nodeName}, inst))
	state, err := m.peering.Consume(m.Context(), inst)
	m.check(err)
	return state
}

func (m *member) sliceGone() bool {
	m.Helper()
	key := client.ObjectKey{Namespace: object.TenantNamespaceName("paris"), Name: nodeName}
	err := m.Get(m.Context(), key, &authv1beta1.ResourceSlice{})
	m.check(client.IgnoreNotFound(err))
	return apierrors.IsNotFound(err)
}

// pods returns, by name, whether the pods of a namespace stay or leave.
func (m *member) pods(namespace string) map[string]string {
	m.Helper()
	list, found := &corev1.PodList{}, map[string]string{}
	m.check(m.List(m.Context(), list, client.InNamespace(namespace)))
	for _, pod := range list.Items {
		found[pod.Name] = "stays"
		if pod.DeletionTimestamp != nil {
			found[pod.Name] = fmt.Sprintf("leaves in %d s", *pod.DeletionGracePeriodSeconds)
		}
	}
	return found
}

func (m *member) wantPods(namespace string, want map[string]string) {
	m.Helper()
	if diff := cmp.Diff(want, m.pods(namespace)); diff != "" {
		m.Errorf("pods (-want +got):\n%s", diff)
	}
}

func TestDrainOnAPIServer(t *testing.T) {
	m := startMember(t)
	t.Run("the agent drains virtual nodes only", func(t *testing.T) { m.in(t).drainsVirtualNodesOnly(t) })
	t.Run("as budgets allow, and then by its deadline", func(t *testing.T) { m.in(t).drainsByItsDeadline(t) })
}

// in returns the same cluster for a subtest.
func (m *member) in(t *testing.T) *member {
	part := *m
	part.T = t
	return &part
}

func (m *member) drainsByItsDeadline(t *testing.T) {
	first, second := m.run("demo", "first", nodeName), m.run("demo", "second", nodeName)
	daemon := m.run("demo", "daemon", nodeName, func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: new(true)}}
	})
	elsewhere := m.run("demo", "elsewhere", "worker")
	allow := m.guard()
	allow(1)

	m.look(0)
	node := &corev1.Node{}
	m.check(m.Get(t.Context(), client.ObjectKey{Name: nodeName}, node))
	if !node.Spec.Unschedulable || len(node.Spec.Taints) == 0 || node.Spec.Taints[len(node.Spec.Taints)-1].Key != agentv1alpha1.EndingTaint {
		t.Errorf("the node takes pods: %+v", node.Spec)
	}
	m.wantPods("demo", map[string]string{"first": "stays", "second": "stays", "daemon": "stays", "elsewhere": "stays"})

	m.look(time.Second)
	m.wantPods("demo", map[string]string{"first": "leaves in 30 s", "second": "stays", "daemon": "stays", "elsewhere": "stays"})
	allow(0)
	state := m.look(time.Second)
	if state.Drained.Reason != agentv1alpha1.ReasonDrainBlocked || !strings.Contains(state.Drained.Message, "disruption budget web") {
		t.Errorf("a budget holds a pod, and it says: %+v", state.Drained)
	}
	m.end(first)

	// The deadline stays the same after the agent is killed.
	m.restart()
	m.look(4 * time.Minute)
	m.wantPods("demo", map[string]string{"second": "stays", "daemon": "stays", "elsewhere": "stays"})
	m.look(time.Minute)
	m.wantPods("demo", map[string]string{"second": "leaves in 30 s", "daemon": "stays", "elsewhere": "stays"})
	if m.sliceGone() {
		t.Error("the slice went while a pod ends")
	}
	m.end(second)
	m.look(time.Second)
	if !m.sliceGone() {
		t.Error("nobody is left on the node, and the slice is there")
	}
	m.end(daemon, elsewhere)
}

// With the agent's account, only virtual nodes of reservations can be drained, and no pod can be
// killed.
func (m *member) drainsVirtualNodesOnly(t *testing.T) {
	inside, beside, outside := m.run("demo", "inside", nodeName), m.run("demo", "beside", "worker"), m.run("closed", "outside", nodeName)
	node := func(name string, change func(*corev1.Node)) func(context.Context) error {
		return func(ctx context.Context) error {
			node := &corev1.Node{}
			if err := m.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
				return err
			}
			before := node.DeepCopy()
			change(node)
			return m.agent.Patch(ctx, node, client.MergeFrom(before), client.DryRunAll)
		}
	}
	eviction := func(by client.Client, pod *corev1.Pod, grace *int64, labels map[string]string) func(context.Context) error {
		return func(ctx context.Context) error {
			return by.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Labels: labels},
				DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: grace, DryRun: []string{metav1.DryRunAll}},
			})
		}
	}
	evict := func(pod *corev1.Pod, grace *int64) func(context.Context) error {
		return eviction(m.agent, pod, grace, map[string]string{agentv1alpha1.DrainLabel: "true"})
	}
	remove := func(pod *corev1.Pod, options ...client.DeleteOption) func(context.Context) error {
		return func(ctx context.Context) error { return m.agent.Delete(ctx, pod, append(options, client.DryRunAll)...) }
	}
	cordon := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	taint := func(key string, effect corev1.TaintEffect) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: effect}) }
	}
	tests := map[string]struct {
		try     func(context.Context) error
		allowed bool
	}{
		"a virtual node is cordoned":                {try: node(nodeName, cordon), allowed: true},
		"another node is cordoned":                  {try: node("worker", cordon)},
		"a virtual node is tainted and left open":   {try: node(nodeName, taint(agentv1alpha1.EndingTaint, corev1.TaintEffectNoSchedule))},
		"a virtual node is closed while it is idle": {try: node(nodeName, taint(agentv1alpha1.VacatingTaint, corev1.TaintEffectNoSchedule)), allowed: true},
		"a virtual node gets somebody else's taint": {try: node(nodeName, func(n *corev1.Node) { cordon(n); taint("other", corev1.TaintEffectNoExecute)(n) })},
		"a virtual node gets a label":               {try: node(nodeName, func(n *corev1.Node) { cordon(n); n.Labels["a"] = "b" })},
		"a virtual node gets a namespace":           {try: node(nodeName, func(n *corev1.Node) { n.Labels["namespace.broker.fluidos.eu/demo"] = "true" }), allowed: true},
		"a virtual node gets a namespace, and more": {try: node(nodeName, func(n *corev1.Node) { n.Labels["namespace.broker.fluidos.eu/demo"], n.Labels["a"] = "true", "b" })},
		"another node gets a namespace":             {try: node("worker", func(n *corev1.Node) { n.Labels = map[string]string{"namespace.broker.fluidos.eu/demo": "true"} })},
		"a virtual node gets its request": {try: node(nodeName, func(n *corev1.Node) {
			maps.Copy(n.Labels, agentv1alpha1.RequestNodeLabels("demo", "my-request"))
		}), allowed: true},
		"another node gets a request":             {try: node("worker", func(n *corev1.Node) { n.Labels = agentv1alpha1.RequestNodeLabels("demo", "my-request") })},
		"a virtual node loses a label":            {try: node(nodeName, func(n *corev1.Node) { delete(n.Labels, "liqo.io/type") })},
		"a pod on a virtual node is deleted":      {try: remove(inside), allowed: true},
		"a pod on a virtual node is killed":       {try: remove(inside, client.GracePeriodSeconds(0))},
		"a pod on another node is deleted":        {try: remove(beside)},
		"a pod is evicted":                        {try: evict(inside, nil), allowed: true},
		"a pod is evicted with no grace":          {try: evict(inside, new(int64(0)))},
		"a pod is evicted that was not offloaded": {try: evict(outside, nil)},
		"a pod is evicted without the label":      {try: eviction(m.agent, inside, nil, nil)},
		"an administrator evicts any pod":         {try: eviction(m.Client, outside, nil, nil), allowed: true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := test.try(t.Context())
			if test.allowed && err != nil || !test.allowed && !isRefused(err) {
				t.Errorf("allowed: want %v, got %v", test.allowed, err)
			}
		})
	}
	m.end(inside, beside, outside)
}

// isRefused reports whether err is a refusal by the policy.
func isRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }
