package burstpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

var shape = quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourceMemory: 256 << 20, corev1.ResourcePods: 1}

// fakePods are the pods that a capacity.Watcher would count.
type fakePods struct {
	selected []burst.Selection
	waiting  []burst.Waiting
	guests   map[string]capacity.Guests
	used     map[string]quantity.Amounts
}

func (p *fakePods) Synced() <-chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}
func (p *fakePods) SelectBursts(all []burst.Selection)                   { p.selected = all }
func (p *fakePods) Waiting(types.NamespacedName) []burst.Waiting         { return p.waiting }
func (p *fakePods) GuestsOn(node string) (capacity.Guests, bool)         { return p.guests[node], true }
func (p *fakePods) OwnRequestsOn(node string) quantity.Amounts           { return p.used[node] }
func (p *fakePods) BurstsChanged() <-chan struct{}                       { return nil }
func (p *fakePods) TakeBurstChanges() ([]types.NamespacedName, []string) { return nil, nil }

// wait replaces the waiting pods. The parameter pods is their number, and since is when the first
// of them began to wait.
func (p *fakePods) wait(pods int64, since time.Time) {
	p.waiting = nil
	if pods > 0 {
		p.waiting = []burst.Waiting{{Kind: burst.Kind{Namespace: "ml", Policy: "default"}, Shape: shape, Pods: pods, Oldest: since}}
	}
}

// bench is a cluster with one BurstPolicy and a reconciler.
type bench struct {
	*testing.T
	*Reconciler
	client   client.WithWatch
	clock    *clocktesting.FakeClock
	pods     *fakePods
	recorder *events.FakeRecorder
	policy   *agentv1alpha1.BurstPolicy
	// writes counts the writes, and dies is the write at which the agent is killed: before it, or after
	// it if late is true. 0 means never.
	writes, dies int
	late         bool
}

var errKilled = errors.New("killed")

func (b *bench) write(do func() error) error {
	b.writes++
	if b.writes != b.dies {
		return do()
	}
	if b.late {
		if err := do(); err != nil {
			return err
		}
	}
	return errKilled
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	scheme := runtime.NewScheme()
	runtest.Check(t, errors.Join(agentv1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)))
	policy := &agentv1alpha1.BurstPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "default", UID: "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01", Generation: 1},
		Spec: agentv1alpha1.BurstPolicySpec{
			Limit:    brokerv1alpha1.RequestedResources{corev1.ResourceCPU: resource.MustParse("100")},
			Template: agentv1alpha1.BurstTemplate{Spec: agentv1alpha1.BurstTemplateSpec{Priority: 7, Constraints: &brokerv1alpha1.Constraints{Regions: []string{"eu-south"}}}},
		},
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ml", Labels: map[string]string{agentv1alpha1.BurstNamespaceLabel: "true"}}}
	b := &bench{T: t, policy: policy, clock: clocktesting.NewFakeClock(start), pods: &fakePods{guests: map[string]capacity.Guests{}, used: map[string]quantity.Amounts{}}, recorder: events.NewFakeRecorder(1000)}
	b.client = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(policy, &agentv1alpha1.ResourceRequest{}).WithObjects(append(objects, ns, policy)...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build(),
		interceptor.Funcs{
			SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
				return b.write(func() error { return c.SubResource(name).Patch(ctx, o, p, options...) })
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				return b.write(func() error { return c.Create(ctx, o, options...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
				if rr, ok := o.(*agentv1alpha1.ResourceRequest); ok {
					rr.Generation++ // the fake client does not count edits of spec
				}
				return b.write(func() error { return c.Patch(ctx, o, p, options...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
				return b.write(func() error { return c.Delete(ctx, o, options...) })
			},
		})
	b.restart()
	return b
}

// restart replaces the reconciler, as if the agent had been started again.
func (b *bench) restart() {
	b.Reconciler = New(b.client, Options{Pods: b.pods, Reader: b.client, Recorder: b.recorder, Clock: b.clock})
}

// reconcile reconciles until nothing is due within a few seconds, and restarts a killed agent.
func (b *bench) reconcile() {
	b.Helper()
	for range 20 {
		result, err := b.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.policy)})
		switch {
		case errors.Is(err, errKilled):
			b.restart()
			continue
		case err != nil && !apierrors.IsNotFound(err):
			b.Fatal(err)
		}
		if result.RequeueAfter == 0 || result.RequeueAfter > untilCordoned {
			break
		}
		b.clock.Step(result.RequeueAfter)
	}
	runtest.Check(b, b.client.Get(b.Context(), client.ObjectKeyFromObject(b.policy), b.policy))
}

// pass lets time pass, with a reconcile every ten seconds.
func (b *bench) pass(d time.Duration) {
	b.Helper()
	for end := b.clock.Now().Add(d); b.clock.Now().Before(end); {
		b.clock.Step(10 * time.Second)
		b.reconcile()
	}
}

func (b *bench) requests() []agentv1alpha1.ResourceRequest {
	b.Helper()
	var list agentv1alpha1.ResourceRequestList
	runtest.Check(b, b.client.List(context.Background(), &list))
	return list.Items
}

func (b *bench) request() *agentv1alpha1.ResourceRequest {
	b.Helper()
	all := b.requests()
	if len(all) != 1 {
		b.Fatalf("%d resource requests, want one", len(all))
	}
	return &all[0]
}

// grant gives a request a virtual node and the amounts that it asks for, but at most the given
// number of pods.
func (b *bench) grant(rr *agentv1alpha1.ResourceRequest, most int64) {
	b.Helper()
	pods := rr.Spec.CPU.MilliValue() / 500
	rr.Status.Phase, rr.Status.NodeName, rr.Status.ObservedGeneration = agentv1alpha1.RequestActive, "res-k3v9x2m7qa-1", rr.Generation
	meta.RemoveStatusCondition(&rr.Status.Conditions, agentv1alpha1.ConditionChanged)
	if pods > most {
		pods = most
		meta.SetStatusCondition(&rr.Status.Conditions, metav1.Condition{Type: agentv1alpha1.ConditionChanged, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonChangeRefused})
	}
	each := shape.Clone()
	delete(each, corev1.ResourcePods)
	rr.Status.Granted = &brokerv1alpha1.Granted{Resources: each.Times(pods).ToResourceList()}
	runtest.Check(b, b.client.Status().Update(context.Background(), rr))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: rr.Status.NodeName, Labels: agentv1alpha1.RequestNodeLabels(rr.Namespace, rr.Name)}}
	was := b.writes
	defer func() { b.writes = was }() // this is no write of the agent
	b.writes = -1000
	if err := b.client.Create(context.Background(), node); err != nil && !apierrors.IsAlreadyExists(err) {
		b.Fatal(err)
	}
}

// run puts pods onto the node.
func (b *bench) run(pods int64) {
	used := shape.Times(pods)
	const node = "res-k3v9x2m7qa-1"
	b.pods.guests[node] = capacity.Guests{Now: int(pods), Came: b.pods.guests[node].Came + uint64(pods)}
	b.pods.used[node] = used
}

func (b *bench) expectCovered(reason string) {
	b.Helper()
	if c := meta.FindStatusCondition(b.policy.Status.Conditions, agentv1alpha1.ConditionCovered); c == nil || c.Reason != reason || c.Message == "" {
		b.Errorf("condition Covered is %+v, want reason %s", c, reason)
	}
}

func (b *bench) node() *corev1.Node {
	b.Helper()
	node := &corev1.Node{}
	runtest.Check(b, b.client.Get(context.Background(), client.ObjectKey{Name: "res-k3v9x2m7qa-1"}, node))
	return node
}

// live is the life of a burst: pods come, their number grows, they run and end.
func (b *bench) live() {
	b.Helper()
	b.pods.wait(4, b.clock.Now())
	b.reconcile()
	b.pass(2 * time.Minute) // two minutes, because a kill can delay the change by another pause of one minute
	b.grant(b.request(), 100)
	b.reconcile()
	b.run(4)
	b.pods.wait(2, b.clock.Now())
	b.reconcile()
	b.pass(3 * time.Minute)
	b.grant(b.request(), 100)
	b.run(6)
	b.pods.wait(0, start)
	b.reconcile()
	b.pass(time.Minute)
}

func TestBurstBorrowsCapacityAndGivesItBack(t *testing.T) {
	b := newBench(t)
	b.pods.wait(4, start)
	b.reconcile()
	b.expectCovered("Gathering")
	if len(b.requests()) > 0 {
		t.Fatal("a request was created before its time")
	}
	b.clock.Step(30 * time.Second)
	b.reconcile()
	rr := b.request()
	b.reconcile() // because of the event of the request
	b.expectCovered("Requested")
	if !metav1.IsControlledBy(rr, b.policy) || rr.Spec.CPU.String() != "2" || rr.Spec.Memory.String() != "1Gi" || len(rr.Spec.Resources) > 0 ||
		len(rr.Spec.PodShapes) != 1 || rr.Spec.PodShapes[0].Count != 4 || rr.Spec.Priority != 7 || rr.Spec.Constraints.Regions[0] != "eu-south" {
		t.Errorf("request %+v", rr)
	}
	if last := b.policy.Status.LastChange; last == nil || last.Action != agentv1alpha1.BurstCreate || last.Request != rr.Name || last.Pods != 4 {
		t.Errorf("last change %+v", last)
	}
	b.grant(rr, 100)
	b.reconcile()
	if got := b.node().Labels[agentv1alpha1.BurstLabel]; got != "default" {
		t.Errorf("the node has label %q", got)
	}
	b.run(4)
	b.pods.wait(2, start)
	b.reconcile()
	b.expectCovered("Pausing")
	b.clock.Step(time.Minute)
	b.reconcile()
	if rr = b.request(); rr.Spec.CPU.String() != "3" {
		t.Errorf("the request asks for %s, want it enlarged to 3", rr.Spec.CPU)
	}
	b.grant(rr, 100)
	b.run(6)
	b.pods.wait(0, start)
	b.reconcile()
	b.expectCovered("NothingWaits")
	b.pass(time.Hour)
	if b.node().Spec.Unschedulable {
		t.Error("a node with pods was cordoned")
	}
	b.run(0)
	b.reconcile()
	b.pass(9 * time.Minute)
	b.request()
	b.pass(2 * time.Minute)
	if left := b.requests(); len(left) > 0 || !b.node().Spec.Unschedulable {
		t.Errorf("%d requests are left, node cordoned %t", len(left), b.node().Spec.Unschedulable)
	}
}

func TestPodThatComesBeforeTheCordonIsNotLost(t *testing.T) {
	b := newBench(t)
	b.live()
	late := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "late"}, Spec: corev1.PodSpec{NodeName: "res-k3v9x2m7qa-1"}}
	daemon := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "daemon", OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "d", Controller: new(true)}}},
		Spec:       corev1.PodSpec{NodeName: "res-k3v9x2m7qa-1"},
	}
	for _, pod := range []*corev1.Pod{late, daemon} {
		runtest.Check(t, b.client.Create(t.Context(), pod))
	}
	b.run(0) // no event has told the agent yet
	b.reconcile()
	b.pass(11 * time.Minute)
	if !b.node().Spec.Unschedulable {
		t.Fatal("the node is not cordoned")
	}
	b.request()
	runtest.Check(t, b.client.Delete(t.Context(), late))
	b.pass(10 * time.Second)
	if left := b.requests(); len(left) > 0 {
		t.Errorf("%d requests are left", len(left))
	}
}

func TestRefusedGrowthGetsASecondRequest(t *testing.T) {
	b := newBench(t)
	b.pods.wait(4, start.Add(-time.Hour))
	b.reconcile()
	b.grant(b.request(), 100)
	b.run(4)
	b.pods.wait(3, start)
	b.reconcile()
	b.pass(time.Minute)
	b.grant(b.request(), 4)
	b.reconcile()
	rr := b.request()
	if rr.Spec.CPU.String() != "2" || rr.Annotations[agentv1alpha1.BurstFullAnnotation] == "" {
		t.Errorf("the request asks for %s after the refusal, annotations %v", rr.Spec.CPU, rr.Annotations)
	}
	b.grant(rr, 4)
	b.pass(2 * time.Minute)
	var asked []string
	for _, rr := range b.requests() {
		asked = append(asked, rr.Spec.CPU.String())
	}
	if slices.Sort(asked); !slices.Equal(asked, []string{"1500m", "2"}) {
		t.Errorf("requests for %v, want a second one for three pods", asked)
	}
}

func TestFailedRequestIsRepeatedLater(t *testing.T) {
	b := newBench(t)
	b.pods.wait(4, start.Add(-time.Hour))
	b.reconcile()
	rr := b.request()
	rr.Status = agentv1alpha1.ResourceRequestStatus{Phase: agentv1alpha1.RequestFailed, Message: "no cluster has room", Conditions: []metav1.Condition{
		{Type: agentv1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "NoCandidate", LastTransitionTime: metav1.NewTime(start.Add(-time.Hour))}, // it waited in the queue
	}}
	runtest.Check(t, b.client.Status().Update(t.Context(), rr))
	b.reconcile()
	b.expectCovered("NoCapacity")
	if c := meta.FindStatusCondition(b.policy.Status.Conditions, agentv1alpha1.ConditionCovered); !strings.Contains(c.Message, "no cluster has room") {
		t.Errorf("message %q", c.Message)
	}
	b.pass(4 * time.Minute)
	if b.request().UID != rr.UID || b.request().Name != rr.Name {
		t.Error("the failed request was replaced early")
	}
	b.pass(2 * time.Minute)
	if again := b.request(); again.Name == rr.Name {
		t.Error("the failed request was not replaced")
	}
}

// forbid makes the API server refuse the agent to delete requests and to change nodes, as its guard does.
func (b *bench) forbid() {
	refusal := apierrors.NewForbidden(corev1.Resource("any"), "any", errors.New("the guard refuses it"))
	b.Reconciler.client = interceptor.NewClient(b.client, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return refusal },
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			if _, ok := o.(*corev1.Node); ok {
				return refusal
			}
			return c.Patch(ctx, o, p, options...)
		},
	})
}

func TestRequestThatCannotBeDeletedHoldsUpNoOther(t *testing.T) {
	b := newBench(t)
	b.pods.wait(4, start.Add(-time.Hour))
	b.reconcile()
	rr := b.request()
	rr.Status = agentv1alpha1.ResourceRequestStatus{Phase: agentv1alpha1.RequestReleased}
	runtest.Check(t, b.client.Status().Update(t.Context(), rr))
	b.reconcile()
	b.forbid()
	b.clock.Step(burst.RetryAfter)
	_, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.policy)})
	if all := b.requests(); !apierrors.IsForbidden(err) || len(all) != 2 {
		t.Errorf("%d requests and error %v, want a second request and the refusal", len(all), err)
	}
}

func TestRefusedEndIsRepeatedLater(t *testing.T) {
	b := newBench(t)
	b.live()
	b.run(0)
	b.forbid()
	for len(b.recorder.Events) > 0 {
		<-b.recorder.Events
	}
	b.pass(14 * time.Minute)
	if told := len(b.recorder.Events); told != 2 {
		t.Errorf("%d events, want that it ends, and the refusal", told)
	}
	b.pass(12 * time.Minute)
	if told := len(b.recorder.Events); told != 4 {
		t.Errorf("%d events, want a second attempt", told)
	}
}

func TestSkippedPodsAreToldOnce(t *testing.T) {
	b := newBench(t)
	b.pods.waiting = []burst.Waiting{{Kind: burst.Kind{Skip: burst.SkipVolume}, Shape: shape, Pods: 30, Oldest: start, Examples: []burst.Pod{{Name: "a", UID: "1"}, {Name: "b", UID: "2"}}}}
	for range 3 {
		b.reconcile()
		b.clock.Step(time.Minute)
	}
	var told []string
	for len(b.recorder.Events) > 0 {
		if e := <-b.recorder.Events; strings.Contains(e, "LocalVolume") {
			told = append(told, e)
		}
	}
	if len(told) != 2 {
		t.Errorf("events %v, want one for each of two pods", told)
	}
	s := b.policy.Status
	if s.SkippedPods != 30 || len(s.Skipped) != 1 || s.Skipped[0].Reason != "LocalVolume" || s.Skipped[0].Pods != 30 || s.Skipped[0].Example != "a" || s.Skipped[0].Message == "" {
		t.Errorf("skipped %+v", s.Skipped)
	}
	if len(b.requests()) > 0 {
		t.Error("capacity was requested for skipped pods")
	}
}

func TestClosedNamespaceIsTold(t *testing.T) {
	b := newBench(t)
	ns := &corev1.Namespace{}
	runtest.Check(t, b.client.Get(t.Context(), client.ObjectKey{Name: "ml"}, ns))
	ns.Labels = nil
	runtest.Check(t, b.client.Update(t.Context(), ns))
	b.reconcile()
	if c := meta.FindStatusCondition(b.policy.Status.Conditions, agentv1alpha1.ConditionReady); c == nil || c.Reason != "NamespaceClosed" || !strings.Contains(c.Message, "kubectl label namespace ml liqo.io/broker-burst=true") {
		t.Errorf("condition %+v", c)
	}
	ns.Labels = map[string]string{agentv1alpha1.BurstNamespaceLabel: "true"}
	runtest.Check(t, b.client.Update(t.Context(), ns))
	b.options.Barred = []string{"ml"}
	b.reconcile()
	if c := meta.FindStatusCondition(b.policy.Status.Conditions, agentv1alpha1.ConditionReady); c == nil || c.Reason != "NamespaceClosed" || !strings.Contains(c.Message, "in another namespace") {
		t.Errorf("of the system: condition %+v", c)
	}
}

func TestMisspelledLimitIsTold(t *testing.T) {
	b := newBench(t)
	b.policy.Spec.Limit = brokerv1alpha1.RequestedResources{"cpus": resource.MustParse("1")}
	runtest.Check(t, b.client.Update(t.Context(), b.policy))
	b.pods.wait(4, start.Add(-time.Hour))
	b.reconcile()
	if c := meta.FindStatusCondition(b.policy.Status.Conditions, agentv1alpha1.ConditionReady); c == nil || c.Reason != "Invalid" || !strings.Contains(c.Message, "spec.limit[cpus]") {
		t.Errorf("condition %+v", c)
	}
	if len(b.requests()) > 0 {
		t.Error("a request was created without a limit")
	}
}

func TestNothingIsWrittenAtRest(t *testing.T) {
	b := newBench(t)
	b.live()
	before := b.writes
	for range 100 {
		b.clock.Step(10 * time.Second)
		b.reconcile()
	}
	if b.writes != before {
		t.Errorf("%d writes although nothing changed", b.writes-before)
	}
}

// The agent is killed before or after each of its writes, and another one continues.
func TestKilledAgentCreatesOneRequestAndEndsIt(t *testing.T) {
	whole := newBench(t)
	whole.live()
	whole.run(0)
	whole.reconcile()
	whole.pass(25 * time.Minute)
	if whole.writes < 8 || len(whole.requests()) > 0 {
		t.Fatalf("%d writes, %d requests left", whole.writes, len(whole.requests()))
	}
	for n := range whole.writes {
		for _, late := range []bool{false, true} {
			t.Run(fmt.Sprintf("write %d, after it %t", n+1, late), func(t *testing.T) {
				b := newBench(t)
				b.dies, b.late = n+1, late
				b.live()
				if rr := b.request(); rr.Spec.CPU.String() != "3" {
					t.Errorf("the request asks for %s, want 3", rr.Spec.CPU)
				}
				b.run(0)
				b.reconcile()
				b.pass(25 * time.Minute)
				if left := b.requests(); len(left) > 0 {
					t.Errorf("%d requests are left", len(left))
				}
			})
		}
	}
}

func TestPodsAreSelectedForAllPolicies(t *testing.T) {
	other := &agentv1alpha1.BurstPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "other"}}
	b := newBench(t, other)
	b.reconcile()
	var names []string
	for _, s := range b.pods.selected {
		names = append(names, s.Namespace+"/"+s.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"ml/default", "web/other"}) {
		t.Errorf("selected %v", names)
	}
}

func TestLargeRequestsNamePods(t *testing.T) {
	b := newBench(t)
	b.pods.wait(150, start.Add(-time.Hour))
	b.reconcile()
	pods := b.request().Spec.Resources[corev1.ResourcePods]
	if pods.Value() != 160 {
		t.Errorf("the request names %s pods, want ten more than 150", pods.String())
	}
}
