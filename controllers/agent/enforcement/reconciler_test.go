package enforcement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/outbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

const (
	placement = "res-0123456789-1"
	tenant    = "liqo-tenant-rome"
	landing   = "demo-rome"
)

var (
	noon          = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	sliceKind     = schema.GroupVersionKind{Group: "authentication.liqo.io", Version: "v1beta1", Kind: "ResourceSlice"}
	shadowPodKind = schema.GroupVersionKind{Group: "offloading.liqo.io", Version: "v1beta1", Kind: "ShadowPod"}
)

type nobody struct{}

func (nobody) SendMessage(context.Context, *v1.Message) error { return nil }

// site is a provider that granted 500m of CPU to a placement.
type site struct {
	*testing.T
	*Reconciler
	clock  *clocktesting.FakePassiveClock
	events *events.FakeRecorder
	// failing is how many writes succeed before one fails; negative means that none fails.
	failing int
}

func newSite(t *testing.T) *site {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, corev1.AddToScheme, object.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	s := &site{T: t, clock: clocktesting.NewFakePassiveClock(noon), events: events.NewFakeRecorder(100), failing: -1}
	slice := s.object(sliceKind, tenant, placement)
	slice.SetLabels(map[string]string{"liqo.io/replicated": "true"})
	c := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&agentv1alpha1.ProviderInstruction{}, s.object(shadowPodKind, "", "")).
		WithObjects(instruction(), slice, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenant, Labels: map[string]string{
			"liqo.io/tenant-namespace": "true", "liqo.io/remote-cluster-id": "rome",
		}}}).
		WithInterceptorFuncs(s.failures()).Build()
	peering := liqo.New(liqo.Options{
		ClusterID: "paris", InstructionNamespace: "default", LiqoNamespace: "liqo", Client: c, Reader: c, Messenger: nobody{},
		Sign: func(b []byte) ([]byte, error) { return b, nil }, Verify: func([]byte) (string, []byte, error) { return "", nil, nil },
		Outbox: outbox.NewOutbox(clock.RealClock{}), Clock: s.clock, Log: logr.Discard(),
	})
	s.Reconciler = newReconciler(c, Options{Namespace: "default", Book: enforcement.NewBook(), Peering: peering, Recorder: s.events, Clock: s.clock})
	return s
}

var errKilled = errors.New("killed")

// failures returns functions that make one write fail without an effect, as if the agent were
// killed there.
func (s *site) failures() interceptor.Funcs {
	fails := func() error {
		s.failing--
		if s.failing == -1 {
			return errKilled
		}
		return nil
	}
	return interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			if err := fails(); err != nil {
				return err
			}
			return c.Update(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			if err := fails(); err != nil {
				return err
			}
			return c.Delete(ctx, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			if err := fails(); err != nil {
				return err
			}
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	}
}

func instruction() *agentv1alpha1.ProviderInstruction {
	return &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: placement},
		Spec:       agentv1alpha1.ProviderInstructionSpec{ReservationName: "res-0123456789", Placement: 1, RequesterClusterID: "rome", Resources: cpu("500m")},
		Status:     agentv1alpha1.ProviderInstructionStatus{Enforced: true, Granted: cpu("500m")},
	}
}

func cpu(amount string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(amount)}
}

func (s *site) check(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) object(kind schema.GroupVersionKind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

// shadow creates a ShadowPod with a creation time in seconds after noon.
func (s *site) shadow(name string, second int, amount string) {
	s.Helper()
	obj := s.object(shadowPodKind, landing, name)
	obj.SetUID(types.UID("shadow-" + name))
	obj.SetLabels(map[string]string{object.OffloadedPodLabel: placement})
	obj.SetCreationTimestamp(metav1.NewTime(noon.Add(time.Duration(second) * time.Second)))
	obj.Object["spec"] = map[string]any{"pod": map[string]any{"containers": []any{map[string]any{
		"name": "a", "resources": map[string]any{"requests": map[string]any{"cpu": amount}},
	}}}}
	obj.Object["status"] = map[string]any{"phase": "Unknown"}
	s.check(s.client.Create(s.Context(), obj))
}

// run creates a ShadowPod and its running pod.
func (s *site) run(name string, second int, amount string) {
	s.Helper()
	s.shadow(name, second, amount)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: landing, Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon.Add(time.Duration(second) * time.Second)),
			Labels: map[string]string{"liqo.io/creator-user": placement + "-0123456789ab"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: name, UID: types.UID("shadow-" + name), Controller: new(true),
			}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: cpu(amount)}}}},
	}
	s.check(s.client.Create(s.Context(), pod))
	s.opts.Book.OnAdd(pod, false)
}

// step reconciles once and then tells the Book which pods are gone, as the watch would.
func (s *site) step() (time.Duration, error) {
	s.Helper()
	result, err := s.Reconcile(s.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(instruction())})
	pods, _, _ := s.opts.Book.Pods(placement, s.clock.Now())
	for _, known := range pods {
		pod := &corev1.Pod{}
		if client.IgnoreNotFound(s.client.Get(s.Context(), known.NamespacedName, pod)) == nil && pod.Name == "" {
			pod.ObjectMeta = metav1.ObjectMeta{Namespace: known.Namespace, Name: known.Name, UID: known.UID}
			s.opts.Book.OnDelete(pod)
		}
	}
	return result.RequeueAfter, err
}

func (s *site) settled() time.Duration {
	s.Helper()
	again, err := s.step()
	s.check(err)
	return again
}

func (s *site) status() agentv1alpha1.ProviderInstructionStatus {
	s.Helper()
	inst := instruction()
	s.check(s.client.Get(s.Context(), client.ObjectKeyFromObject(inst), inst))
	return inst.Status
}

func (s *site) running() (names []string) {
	s.Helper()
	var pods corev1.PodList
	s.check(s.client.List(s.Context(), &pods))
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return names
}

func (s *site) shadows() (names []string) {
	s.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(shadowPodKind.GroupVersion().WithKind("ShadowPodList"))
	s.check(s.client.List(s.Context(), list))
	for i := range list.Items {
		names = append(names, list.Items[i].GetName())
	}
	return names
}

func (s *site) cordoned() bool {
	s.Helper()
	slice := s.object(sliceKind, tenant, placement)
	s.check(s.client.Get(s.Context(), client.ObjectKeyFromObject(slice), slice))
	return slice.GetAnnotations()["liqo.io/cordon"] == "true"
}

func TestExcessIsEvictedAndReported(t *testing.T) {
	s := newSite(t)
	s.run("first", 1, "300m")
	if s.settled(); s.status().Excess != nil || s.cordoned() {
		t.Fatal("pods that fit are left alone")
	}
	if n := testutil.CollectAndCount(s.evicted); n != 1 {
		t.Errorf("%d series before the first eviction, want one with 0", n)
	}
	s.run("second", 2, "300m")
	s.run("third", 3, "150m")
	s.settled()
	if diff := cmp.Diff([]string{"first"}, s.running()); diff != "" {
		t.Errorf("pods (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"first"}, s.shadows()); diff != "" {
		t.Errorf("Liqo would make these pods anew (-want +got):\n%s", diff)
	}
	excess := s.status().Excess
	if excess == nil || excess.EvictedPods != 2 || !excess.Resources.Cpu().Equal(resource.MustParse("250m")) || !excess.Cordoned || !s.cordoned() {
		t.Errorf("excess %+v, slice cordoned %t", excess, s.cordoned())
	}
	if got := testutil.ToFloat64(s.evicted.WithLabelValues("rome")); got != 2 {
		t.Errorf("the metric counts %v evictions", got)
	}
	if event := <-s.events.Events; event != `Warning ExceedsGrant 2 pods of "rome" exceeded the grant and were evicted: demo-rome/third, demo-rome/second` {
		t.Errorf("event %q", event)
	}
}

func TestNewPodsAreLetInAMinuteAfterTheOthersFit(t *testing.T) {
	s := newSite(t)
	s.run("first", 1, "600m")
	s.settled()
	again := s.settled()
	if excess := s.status().Excess; again != cordonFor || len(excess.Resources) != 0 || !excess.Cordoned || !s.cordoned() {
		t.Fatalf("looks again in %s, excess %+v", again, excess)
	}
	s.clock.SetTime(noon.Add(cordonFor))
	s.settled()
	excess := s.status().Excess
	if excess.Cordoned || s.cordoned() || excess.EvictedPods != 1 || !excess.Largest.Cpu().Equal(resource.MustParse("100m")) {
		t.Errorf("after a minute: excess %+v, slice cordoned %t", excess, s.cordoned())
	}
}

// The eviction is completed wherever the agent is killed.
func TestInterruptedEvictionIsFinished(t *testing.T) {
	for at := range 12 {
		t.Run(fmt.Sprintf("at write %d", at), func(t *testing.T) {
			s := newSite(t)
			for i := range 3 {
				s.run(fmt.Sprintf("pod-%d", i), i, "300m")
			}
			s.failing = at
			_, err := s.step()
			if err != nil && !errors.Is(err, errKilled) {
				t.Fatal(err)
			}
			s.failing = -1
			s.settled()
			s.settled()
			s.clock.SetTime(noon.Add(2 * cordonFor))
			s.settled()
			excess := s.status().Excess
			if !slices.Equal(s.running(), []string{"pod-0"}) || !slices.Equal(s.shadows(), []string{"pod-0"}) || len(excess.Resources) != 0 || excess.Cordoned || s.cordoned() {
				t.Errorf("pods %v, ShadowPods %v, excess %+v, cordoned %t", s.running(), s.shadows(), excess, s.cordoned())
			}
		})
	}
}

func TestAgreedReductionEvictsNothing(t *testing.T) {
	s := newSite(t)
	s.run("old", -10, "300m")
	inst := instruction()
	s.check(s.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
	inst.Status.Granted = cpu("200m")
	inst.Status.Reduced = &agentv1alpha1.ReducedGrant{Resources: cpu("500m"), At: metav1.NewTime(noon)}
	s.check(s.client.Status().Update(t.Context(), inst))
	s.settled()
	if status := s.status(); status.Reduced == nil || status.Excess != nil || len(s.running()) != 1 {
		t.Fatalf("pods %v, status %+v", s.running(), status)
	}
	s.run("new", 5, "100m")
	s.settled()
	if diff := cmp.Diff([]string{"old"}, s.running()); diff != "" {
		t.Errorf("a pod from after the reduction has to fit (-want +got):\n%s", diff)
	}
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: landing, Name: "old", UID: "old"}}
	s.check(s.client.Delete(t.Context(), old))
	s.settled()
	if s.settled(); s.status().Reduced != nil {
		t.Error("a reduction that the pods have followed is forgotten")
	}
}

func TestEndedPlacementIsLeftToItsReclaim(t *testing.T) {
	s := newSite(t)
	inst := instruction()
	s.check(s.client.Get(t.Context(), client.ObjectKeyFromObject(inst), inst))
	inst.Spec.Release = true
	s.check(s.client.Update(t.Context(), inst))
	s.run("first", 1, "600m")
	s.settled()
	if len(s.running()) != 1 || s.status().Excess != nil {
		t.Error("the pods of an ended placement are drained, not evicted")
	}
}

func TestOldestWaitingPodThatFitsIsRetriedFirst(t *testing.T) {
	s := newSite(t)
	s.run("running", -60, "200m")
	s.shadow("b", -40, "200m")
	s.shadow("a", -50, "250m")
	s.shadow("large", -45, "400m")
	if again := s.settled(); again != retryEvery {
		t.Errorf("a pod that is refused although it fits is tried again in %s", again)
	}
	s.wantPhases(map[string]string{"a": "Pending", "b": "Unknown", "large": "Unknown", "running": "Unknown"})

	s.clock.SetTime(noon.Add(time.Second))
	if again := s.settled(); again != wakeEvery-time.Second {
		t.Errorf("a pod that was just tried is tried again in %s", again)
	}
	s.wantPhases(map[string]string{"a": "Pending", "b": "Unknown", "large": "Unknown", "running": "Unknown"})

	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: landing, Name: "running", UID: "running"}}
	s.check(s.client.Delete(t.Context(), pod))
	s.check(s.client.Delete(t.Context(), s.object(shadowPodKind, landing, "running")))
	s.clock.SetTime(noon.Add(wakeEvery))
	s.settled()
	s.settled()
	s.wantPhases(map[string]string{"a": "Unknown", "b": "Pending", "large": "Unknown"})
}

// The oldest ShadowPods do not fit or have ended, and only mostWoken are read at once.
func TestPodsThatNeverFitDoNotHoldUpNewerOnes(t *testing.T) {
	s := newSite(t)
	for n := range 2 * mostWoken {
		s.shadow(fmt.Sprintf("large-%02d", n), -1000+n, "2")
	}
	s.shadow("small", -100, "100m")
	for range 2 {
		if again := s.settled(); again != wakeEvery {
			t.Fatalf("the next look is in %v, want %v", again, wakeEvery)
		}
	}
	s.settled()
	obj := s.object(shadowPodKind, landing, "small")
	s.check(s.client.Get(t.Context(), client.ObjectKeyFromObject(obj), obj))
	if phase, _, _ := unstructured.NestedString(obj.Object, "status", "phase"); phase != "Pending" {
		t.Errorf("a pod that fits was not tried: its phase is %s", phase)
	}
}

// A consumer could otherwise keep the agent busy with pods that are refused for another reason.
func TestPodsThatAreRefusedForAnotherReasonAreRetriedLessOften(t *testing.T) {
	s := newSite(t)
	for n := range mostWoken + 1 {
		s.shadow(fmt.Sprintf("refused-%02d", n), -100+n, "1m")
	}
	now, retries := noon, 0
	for now.Before(noon.Add(5 * time.Minute)) {
		s.clock.SetTime(now)
		again := s.settled()
		if again < time.Second || again > retryEvery {
			t.Fatalf("the next look is in %v", again)
		}
		now = now.Add(again)
		retries = 0
		for _, pod := range s.seen[placement] {
			retries += pod.retries
		}
	}
	if most := (mostWoken + 1) * 12; retries > most || retries < most/3 {
		t.Errorf("%d pods were retried %d times in 5 minutes", mostWoken+1, retries)
	}
	inst := instruction()
	s.check(s.client.Delete(t.Context(), inst))
	s.settled()
	if len(s.seen) > 0 {
		t.Errorf("the pods of a deleted placement are remembered: %v", s.seen)
	}
}

func TestNewShadowPodIsLeftToLiqo(t *testing.T) {
	s := newSite(t)
	s.shadow("new", 0, "100m")
	if again := s.settled(); again != wakeEvery {
		t.Errorf("looks again in %s", again)
	}
	s.wantPhases(map[string]string{"new": "Unknown"})
}

func (s *site) wantPhases(want map[string]string) {
	s.Helper()
	got := map[string]string{}
	for _, name := range s.shadows() {
		obj := s.object(shadowPodKind, landing, name)
		s.check(s.client.Get(s.Context(), client.ObjectKeyFromObject(obj), obj))
		got[name], _, _ = unstructured.NestedString(obj.Object, "status", "phase")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.Errorf("phases (-want +got):\n%s", diff)
	}
}
