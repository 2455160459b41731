package provisioningrequest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	fakeclient "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a cluster with one ProvisioningRequest and a reconciler.
type bench struct {
	*testing.T
	*Reconciler
	client client.WithWatch
	clock  *clocktesting.FakeClock
	pr     *autoscaling.ProvisioningRequest
	// dies makes the next write of a status fail, as if the agent had been killed just before.
	dies bool
}

func newBench(t *testing.T, change ...func(*autoscaling.ProvisioningRequest)) *bench {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, corev1.AddToScheme, autoscaling.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	template := &corev1.PodTemplate{}
	err := yaml.Unmarshal([]byte(`{metadata: {namespace: ml, name: worker}, template: {spec: {containers: [{name: a, resources: {requests: {cpu: 500m, memory: 256Mi}}}]}}}`), template)
	runtest.Check(t, err)
	pr := &autoscaling.ProvisioningRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "job-train-borrowed-1", UID: "0b0b6f6e-8a53-4c86-9a3c-6f9f1f1c0a01", Generation: 1, CreationTimestamp: metav1.NewTime(start)},
		Spec: autoscaling.ProvisioningRequestSpec{
			ProvisioningClassName: autoscaling.ClassName,
			PodSets:               []autoscaling.PodSet{{PodTemplateRef: autoscaling.Reference{Name: "worker"}, Count: 4}},
			Parameters:            map[string]autoscaling.Parameter{"duration": "4h"},
		},
	}
	for _, f := range change {
		f(pr)
	}
	b := &bench{T: t, pr: pr, clock: clocktesting.NewFakeClock(start)}
	b.client = interceptor.NewClient(fakeclient.NewClientBuilder().WithScheme(scheme).
		WithStatusSubresource(pr, &agentv1alpha1.ResourceRequest{}).WithObjects(template, pr).Build(),
		interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, name string, o client.Object, p client.Patch, options ...client.SubResourcePatchOption) error {
			if b.dies {
				return errors.New("killed")
			}
			return c.SubResource(name).Patch(ctx, o, p, options...)
		}})
	b.Reconciler = New(b.client, Options{Reader: b.client, Recorder: events.NewFakeRecorder(100), Clock: b.clock})
	return b
}

// reconcile reconciles once and reads the ProvisioningRequest again.
func (b *bench) reconcile() time.Duration {
	b.Helper()
	result, err := b.Reconcile(b.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.pr)})
	runtest.Check(b, err)
	runtest.Check(b, b.client.Get(b.Context(), client.ObjectKeyFromObject(b.pr), b.pr))
	return result.RequeueAfter
}

func (b *bench) requests() []agentv1alpha1.ResourceRequest {
	b.Helper()
	var list agentv1alpha1.ResourceRequestList
	runtest.Check(b, b.client.List(b.Context(), &list))
	return list.Items
}

// request returns the only ResourceRequest.
func (b *bench) request() *agentv1alpha1.ResourceRequest {
	b.Helper()
	all := b.requests()
	if len(all) != 1 {
		b.Fatalf("%d resource requests, want one", len(all))
	}
	return &all[0]
}

// setStatus replaces the status of the ResourceRequest and reconciles.
func (b *bench) setStatus(text string) {
	b.Helper()
	rr := b.request()
	rr.Status = agentv1alpha1.ResourceRequestStatus{}
	runtest.Check(b, yaml.Unmarshal([]byte(text), &rr.Status))
	runtest.Check(b, b.client.Status().Update(b.Context(), rr))
	b.reconcile()
}

// expect compares the conditions that are true, with their reasons, for example "Accepted=Pending".
func (b *bench) expect(want ...string) {
	b.Helper()
	var got []string
	for _, c := range b.pr.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			got = append(got, c.Type+"="+c.Reason)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.Errorf("conditions %v, want %v", got, want)
	}
}

func (b *bench) message(kind string) string {
	if c := meta.FindStatusCondition(b.pr.Status.Conditions, kind); c != nil {
		return c.Message
	}
	return ""
}

const (
	active = `
phase: Active
reservationName: res-k3v9x2m7qa
targetClusterID: paris
nodeName: res-k3v9x2m7qa-1
conditions:
  - {type: Ready, status: "True", reason: NodeReady, message: ready}
  - {type: Reserved, status: "True", reason: Reserved, message: held}`
	failedEverywhere = `
phase: Failed
conditions:
  - {type: Ready, status: "False", reason: NoCandidate, message: "no cluster has room\nparis: cpu\noslo: Stale"}
  - {type: Reserved, status: "False", reason: NoCandidate, message: "no cluster has room\nparis: cpu\noslo: Stale"}`
)

func TestProvisioningRequestBorrowsCapacity(t *testing.T) {
	b := newBench(t)
	b.reconcile()
	b.expect("Accepted=Pending")
	rr := b.request()
	if !metav1.IsControlledBy(rr, b.pr) || len(rr.Spec.PodShapes) != 1 || rr.Spec.PodShapes[0].Count != 4 || rr.Spec.Duration.Duration != 4*time.Hour {
		t.Errorf("resource request %+v", rr)
	}
	b.setStatus(`{phase: Queued, conditions: [{type: Ready, status: "False", reason: Queued, message: "place 3, expected at 14:00"}]}`)
	b.expect("Accepted=Pending")
	if got := b.message(autoscaling.Provisioned); got != "place 3, expected at 14:00" {
		t.Errorf("message %q", got) // Kueue shows it on the workload
	}
	b.setStatus(active)
	b.expect("Accepted=Pending", "Provisioned=NodeReady")
	for name, want := range map[string]string{"RequestName": rr.Name, "RequestNamespace": "ml", "ReservationName": "res-k3v9x2m7qa", "ClusterID": "paris"} {
		if got := b.pr.Status.ProvisioningClassDetails[name]; string(got) != want {
			t.Errorf("detail %s is %q, want %q", name, got, want)
		}
	}
	for key, value := range agentv1alpha1.RequestNodeLabels("ml", rr.Name) {
		if name := map[string]string{agentv1alpha1.RequestLabel: "RequestName", agentv1alpha1.RequestNamespaceLabel: "RequestNamespace"}[key]; string(b.pr.Status.ProvisioningClassDetails[name]) != value {
			t.Errorf("detail %q does not name the value of label %s", name, key)
		}
	}
	// Moving to another provider is no end.
	b.setStatus(strings.Replace(active, "phase: Active", "phase: Reserved", 1))
	b.expect("Accepted=Pending", "Provisioned=NodeReady")
}

func TestEndsOfCapacityAreTold(t *testing.T) {
	preempted := `{phase: PHASE, conditions: [{type: Preempted, status: "True", reason: Preempted}, {type: Reserved, status: "False", reason: Preempted, message: "made room for priority 10"}]}`
	cases := map[string]struct {
		status      string
		provisioned bool
		want        []string
		message     string
	}{
		"no cluster has room": {failedEverywhere, false, []string{"Accepted=Pending", "Failed=NoCandidate"}, "paris: cpu\noslo: Stale"},
		"preempted, and over": {strings.Replace(preempted, "PHASE", "Failed", 1), true, []string{"Accepted=Pending", "Provisioned=NodeReady", "CapacityRevoked=Preempted", "Failed=Preempted"}, "made room for priority 10"},
		"preempted, and waiting again": {
			strings.Replace(preempted, "PHASE", "Queued", 1), true, []string{"Accepted=Pending", "Provisioned=NodeReady", "CapacityRevoked=Preempted", "Failed=Preempted"}, "made room for priority 10",
		},
		"recalled by the provider": {
			`{phase: Failed, conditions: [{type: Recalled, status: "True", reason: RecallNotice}, {type: Reserved, status: "False", reason: Failed, message: "no other cluster"}]}`,
			true, []string{"Accepted=Pending", "Provisioned=NodeReady", "CapacityRevoked=Recalled", "Failed=Recalled"}, "no other cluster",
		},
		"lost with its provider": {
			`{phase: Releasing, conditions: [{type: Ending, status: "True", reason: Failed}, {type: Ready, status: "False", reason: Failed}, {type: Reserved, status: "False", reason: Failed, message: "paris is gone"}]}`,
			true, []string{"Accepted=Pending", "Provisioned=NodeReady", "CapacityRevoked=Failed", "Failed=Failed"}, "paris is gone",
		},
		"its duration is over": {
			`{phase: Releasing, conditions: [{type: Ending, status: "True", reason: Expired}, {type: Reserved, status: "False", reason: Releasing, message: "its duration has ended"}]}`,
			true, []string{"Accepted=Pending", "Provisioned=NodeReady", "CapacityRevoked=Expired", "BookingExpired=Expired"}, "its duration has ended",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.reconcile()
			if tc.provisioned {
				b.setStatus(active)
			}
			b.setStatus(tc.status)
			b.expect(tc.want...)
			for _, kind := range []string{autoscaling.Failed, autoscaling.CapacityRevoked, autoscaling.BookingExpired} {
				if got := b.message(kind); got != "" && !strings.Contains(got, tc.message) {
					t.Errorf("message of %s is %q, want %q", kind, got, tc.message)
				}
			}
			if rr := b.request(); rr.Spec.Release == isRequestOver(rr) {
				t.Errorf("phase %s, release %v: a request that is not over must be released, another must stay as it is", rr.Status.Phase, rr.Spec.Release)
			}
			// What happens to the ResourceRequest later changes nothing.
			before := b.pr.DeepCopy()
			b.setStatus(active)
			if b.pr.ResourceVersion != before.ResourceVersion {
				t.Errorf("status changed after the end: %+v", b.pr.Status)
			}
		})
	}
}

func TestReleaseByAUserIsNoFailure(t *testing.T) {
	for name, end := range map[string]func(b *bench, rr *agentv1alpha1.ResourceRequest) error{
		"Released": func(b *bench, rr *agentv1alpha1.ResourceRequest) error {
			rr.Spec.Release = true
			return b.client.Update(b.Context(), rr)
		},
		"Deleted": func(b *bench, rr *agentv1alpha1.ResourceRequest) error { return b.client.Delete(b.Context(), rr) },
	} {
		b := newBench(t)
		b.reconcile()
		b.setStatus(active)
		runtest.Check(t, end(b, b.request()))
		b.reconcile()
		b.expect("Accepted=Pending", "Provisioned=NodeReady", "CapacityRevoked="+name)
		b.reconcile()
		if n := len(b.requests()); name == "Deleted" && n != 0 {
			t.Errorf("%d resource requests were created again", n)
		}
	}
}

func TestWrongProvisioningRequestFails(t *testing.T) {
	b := newBench(t, func(pr *autoscaling.ProvisioningRequest) { pr.Spec.Parameters["duration"] = "soon" })
	b.reconcile()
	b.expect("Failed=Invalid")
	if got := b.message(autoscaling.Accepted); !strings.Contains(got, `parameter "duration": "soon" is not a duration`) {
		t.Errorf("message %q", got)
	}
	if len(b.requests()) != 0 {
		t.Error("a resource request was created")
	}
}

func TestMissingPodTemplateIsAwaited(t *testing.T) {
	b := newBench(t, func(pr *autoscaling.ProvisioningRequest) { pr.Spec.PodSets[0].PodTemplateRef.Name = "later" })
	if again := b.reconcile(); again != templateRetry {
		t.Errorf("next reconcile after %s", again)
	}
	b.expect()
	if got := b.message(autoscaling.Accepted); !strings.Contains(got, `pod template "later" does not exist in namespace "ml": create it`) {
		t.Errorf("message %q", got)
	}
	template := &corev1.PodTemplate{}
	runtest.Check(t, b.client.Get(t.Context(), client.ObjectKey{Namespace: "ml", Name: "worker"}, template))
	template.ObjectMeta = metav1.ObjectMeta{Namespace: "ml", Name: "later"}
	runtest.Check(t, b.client.Create(t.Context(), template))
	b.reconcile()
	b.expect("Accepted=Pending")
}

// Without an end, a workload of Kueue would keep its quota and never start.
func TestMissingPodTemplateEndsTheRequest(t *testing.T) {
	b := newBench(t, func(pr *autoscaling.ProvisioningRequest) { pr.Spec.PodSets[0].PodTemplateRef.Name = "never" })
	b.clock.SetTime(start.Add(templateTimeout - time.Second))
	if again := b.reconcile(); again != time.Second {
		t.Errorf("next reconcile after %s", again)
	}
	b.expect()
	b.clock.Step(time.Second)
	b.reconcile()
	b.expect("Failed=PodTemplateMissing")
	if got := b.message(autoscaling.Failed); !strings.Contains(got, `pod template "never" does not exist in namespace "ml" after 2m0s`) {
		t.Errorf("message %q", got)
	}
}

func TestOtherClassesAreNotTouched(t *testing.T) {
	b := newBench(t, func(pr *autoscaling.ProvisioningRequest) {
		pr.Spec.ProvisioningClassName = "check-capacity.autoscaling.x-k8s.io"
	})
	before := b.pr.ResourceVersion
	b.reconcile()
	if len(b.requests()) != 0 || b.pr.ResourceVersion != before {
		t.Errorf("it was touched: %+v", b.pr)
	}
}

func TestKilledAgentCreatesOneRequest(t *testing.T) {
	b := newBench(t)
	b.dies = true
	for range 3 {
		if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(b.pr)}); err == nil {
			t.Fatal("the agent was not killed")
		}
		b.request()
	}
	b.dies = false
	b.reconcile()
	b.request()
	b.expect("Accepted=Pending")
}

func TestForeignRequestIsNotTakenOver(t *testing.T) {
	b := newBench(t)
	foreign := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: RequestName(b.pr)}}
	runtest.Check(t, b.client.Create(t.Context(), foreign))
	b.reconcile()
	b.expect("Failed=NameTaken")
	if rr := b.request(); rr.Spec.Release {
		t.Error("the foreign request was released")
	}
}

func TestResourceRequestHasAValidName(t *testing.T) {
	for _, name := range []string{"a", strings.Repeat("a", 53) + ".b", strings.Repeat("a", 53) + "-b", strings.Repeat("a.", 126) + "a"} {
		got := RequestName(&autoscaling.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: "0b0b6f6e"}})
		if problems := slices.Concat(validation.IsDNS1123Subdomain(got), validation.IsValidLabelValue(got)); len(problems) > 0 {
			t.Errorf("%q: %v", got, problems)
		}
	}
}

// The agent reconciles all ended ProvisioningRequests when it starts. Kueue keeps each as long as its Workload, so there
// may be many, and none may cost a call of the API server.
func TestEndedProvisioningRequestIsReadFromTheCacheOnly(t *testing.T) {
	b := newBench(t)
	b.reconcile()
	runtest.Check(t, b.client.Delete(t.Context(), b.request()))
	b.reconcile()
	b.expect("Accepted=Pending", "Failed=Deleted")
	b.options.Reader = interceptor.NewClient(b.client, interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("the API server was asked")
	}})
	b.reconcile()
}
