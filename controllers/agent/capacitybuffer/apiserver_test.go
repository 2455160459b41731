package capacitybuffer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/agenttest"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/capacitybuffer"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/burst"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// fastClock is a clock that the test can set forward.
type fastClock struct {
	clock.RealClock
	ahead atomic.Int64
}

func (c *fastClock) Now() time.Time                  { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *fastClock) setForward(d time.Duration)      { c.ahead.Add(int64(d)) }
func (c *fastClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }

// site is a cluster in which the test plays the scheduler, the broker and Liqo.
type site struct {
	*agenttest.Site
	*testing.T
	clock fastClock
	// agent is a client with the rights of the agent.
	agent client.Client
}

func startSite(t *testing.T) *site {
	s := &site{Site: agenttest.Start(t, chart.AgentWithBuffers), T: t}
	limited, config := s.Limited(t)
	s.agent = limited
	mgr, err := agenttest.NewManager(config)
	runtest.Check(t, err)
	clientset, err := kubernetes.NewForConfig(config)
	runtest.Check(t, err)
	watcher := capacity.New(clientset)
	err = capacitybuffer.New(mgr.GetClient(), capacitybuffer.Options{
		Pods: watcher, Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("agent"), Clock: &s.clock,
		CheckInterval: 200 * time.Millisecond, CountInterval: 200 * time.Millisecond,
	}).SetupWhenServed(mgr)
	runtest.Check(t, errors.Join(err, mgr.Add(watcher)))
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	go func() { ended <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		runtest.Check(t, <-ended)
	})
	return s
}

func (s *site) buffer(name string, edit func(*autoscaling.CapacityBuffer)) *autoscaling.CapacityBuffer {
	s.Helper()
	b := &autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: autoscaling.CapacityBufferSpec{
		ProvisioningStrategy: autoscaling.Strategy, PodTemplateRef: &autoscaling.Reference{Name: "web-worker"}, Replicas: new(int32(3)),
	}}
	edit(b)
	runtest.Check(s.T, s.Create(s.Context(), b))
	return b
}

// awaitReady waits until condition Ready of a buffer has a status, a reason and a text.
func (s *site) awaitReady(name string, status metav1.ConditionStatus, reason, text string) {
	s.Helper()
	runtest.Eventually(s.T, func(ctx context.Context) error {
		b := &autoscaling.CapacityBuffer{}
		if err := s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, autoscaling.BufferReady)
		if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, text) {
			return fmt.Errorf("condition %+v, want %s %s with %q", c, status, reason, text)
		}
		return nil
	})
}

// grant answers the request of buffer web in place of the broker, once it asks for a number of cores.
func (s *site) grant(asked, granted string, refused bool) *agentv1alpha1.ResourceRequest {
	s.Helper()
	rr := &agentv1alpha1.ResourceRequest{}
	runtest.Eventually(s.T, func(ctx context.Context) error {
		err := s.Get(ctx, client.ObjectKey{Namespace: "default", Name: "web"}, rr)
		if err != nil || rr.Spec.CPU.Cmp(resource.MustParse(asked)) != 0 {
			return fmt.Errorf("asked for %v cores, want %s: %w", rr.Spec.CPU, asked, err)
		}
		cores := resource.MustParse(granted)
		rr.Status.Phase, rr.Status.NodeName, rr.Status.ObservedGeneration = agentv1alpha1.RequestActive, "res-aaaaaaaaaa-1", rr.Generation
		rr.Status.Granted = &brokerv1alpha1.Granted{Resources: corev1.ResourceList{
			corev1.ResourceCPU: cores, corev1.ResourceMemory: *resource.NewQuantity(cores.MilliValue()/500<<28, resource.BinarySI),
		}}
		meta.SetStatusCondition(&rr.Status.Conditions, metav1.Condition{Type: agentv1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: "NodeReady"})
		meta.RemoveStatusCondition(&rr.Status.Conditions, agentv1alpha1.ConditionChanged)
		if refused {
			meta.SetStatusCondition(&rr.Status.Conditions, metav1.Condition{Type: agentv1alpha1.ConditionChanged, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonChangeRefused})
		}
		return s.Status().Update(ctx, rr)
	})
	return rr
}

// run creates a pod on the borrowed node.
func (s *site) run(name string) *corev1.Pod {
	s.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{
		NodeName: "res-aaaaaaaaaa-1", AutomountServiceAccountToken: new(false),
		Containers: []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10.1", Resources: corev1.ResourceRequirements{Requests: amounts}}},
	}}
	runtest.Check(s.T, s.Create(s.Context(), pod))
	return pod
}

// The subtests share one API server with the CRD that kubernetes/autoscaler publishes.
func TestCapacityBuffersOnAPIServer(t *testing.T) {
	s := startSite(t)
	s.Install(t, "testdata/autoscaling.x-k8s.io_capacitybuffers.yaml") // after the agent has started
	runtest.Check(t, s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}))
	s.buffer("early", func(*autoscaling.CapacityBuffer) {})
	s.awaitReady("early", metav1.ConditionFalse, agentv1alpha1.ReasonPodTemplateMissing, `pod template "web-worker" does not exist`)
	runtest.Check(t, s.Delete(t.Context(), &autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "early"}}))

	// The sample: five pods of half a core, at most 20 cores.
	s.Install(t, "../../../config/samples/autoscaling/capacitybuffer.yaml")
	rr := s.grant("2500m", "2500m", false)
	if rr.Spec.QueuePolicy != brokerv1alpha1.QueuePolicyQueue || len(rr.Spec.Constraints.Regions) != 2 || rr.Spec.PodShapes[0].Count != 5 {
		t.Errorf("spec %+v, want the parameters of the sample", rr.Spec)
	}
	labels := agentv1alpha1.RequestNodeLabels("default", "web")
	labels["liqo.io/type"] = "virtual-node"
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "res-aaaaaaaaaa-1", Labels: labels}, Spec: corev1.NodeSpec{Unschedulable: true}}
	runtest.Check(t, s.Create(t.Context(), node))
	s.awaitReady("web", metav1.ConditionFalse, agentv1alpha1.ReasonNodeUnusable, "cordoned or not Ready")
	runtest.Check(t, s.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"unschedulable":false}}`))))
	s.awaitReady("web", metav1.ConditionTrue, agentv1alpha1.ReasonRequested, "there is room for 5 more pods on node")

	pods := []*corev1.Pod{s.run("a"), s.run("b")}
	s.awaitReady("web", metav1.ConditionFalse, agentv1alpha1.ReasonPausing, "room for 3 more pods is left")
	s.clock.setForward(burst.Pause)
	s.grant("3500m", "2500m", true) // seven pods, which the provider refuses
	s.grant("2500m", "2500m", false)
	s.awaitReady("web", metav1.ConditionFalse, agentv1alpha1.ReasonNoCapacity, "more is requested at")
	s.clock.setForward(burst.RetryAfter)
	s.grant("3500m", "3500m", false)
	s.awaitReady("web", metav1.ConditionTrue, agentv1alpha1.ReasonRequested, "there is room for 5 more pods on node")

	for _, pod := range pods {
		runtest.Check(t, s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	}
	s.awaitReady("web", metav1.ConditionTrue, agentv1alpha1.ReasonRequested, "there is room for 7 more pods on node")
	s.clock.setForward(burst.ShrinkAfter)
	first := s.grant("2500m", "2500m", false)

	// The broker does not let the request shrink below its five pods.
	web := &autoscaling.CapacityBuffer{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	runtest.Check(t, s.Patch(t.Context(), web, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":2}}`))))
	runtest.Eventually(t, func(ctx context.Context) error {
		s.clock.setForward(burst.ShrinkAfter)
		err := s.Get(ctx, client.ObjectKeyFromObject(web), rr)
		if err != nil || rr.UID == first.UID || rr.Spec.PodShapes[0].Count != 2 {
			return fmt.Errorf("request %s for %v pods, want another one for two: %w", rr.UID, rr.Spec.PodShapes, err)
		}
		return nil
	})

	t.Run("what nobody may use", func(t *testing.T) {
		s.buffer("percentage", func(b *autoscaling.CapacityBuffer) { b.Spec.Percentage = new(int32(20)) })
		s.awaitReady("percentage", metav1.ConditionFalse, agentv1alpha1.ReasonInvalid, "name the workload in spec.scalableRef, or set spec.replicas")
		scaled := func(group, kind string) func(*autoscaling.CapacityBuffer) {
			return func(b *autoscaling.CapacityBuffer) {
				b.Spec.PodTemplateRef, b.Spec.ScalableRef = nil, &autoscaling.ScalableReference{APIGroup: group, Kind: kind, Name: "shop"}
			}
		}
		s.buffer("foreign", scaled("argoproj.io", "Rollout"))
		s.awaitReady("foreign", metav1.ConditionFalse, agentv1alpha1.ReasonInvalid, `spec.scalableRef names kind "Rollout" of group "argoproj.io"`)
		s.buffer("early", scaled("apps", "StatefulSet"))
		s.awaitReady("early", metav1.ConditionFalse, agentv1alpha1.ReasonPodTemplateMissing, `StatefulSet "shop" does not exist`)
		s.buffer("small", func(b *autoscaling.CapacityBuffer) {
			b.Spec.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
		})
		s.awaitReady("small", metav1.ConditionFalse, agentv1alpha1.ReasonLimitReached, "spec.limits allow no more")
		s.buffer("boundless", func(b *autoscaling.CapacityBuffer) {
			b.Spec.Replicas, b.Spec.Limits = nil, corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("4")}
		})
		s.awaitReady("boundless", metav1.ConditionFalse, agentv1alpha1.ReasonInvalid, "spec.limits name nothing that pod template")
		s.buffer("misspelt", func(b *autoscaling.CapacityBuffer) {
			b.Annotations = map[string]string{autoscaling.ParameterPrefix + "regoins": "eu"}
		})
		s.awaitReady("misspelt", metav1.ConditionFalse, agentv1alpha1.ReasonInvalid, `parameter "regoins" is unknown`)
		cpu, memory := resource.MustParse("1"), resource.MustParse("1Gi")
		mine := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "taken"}, Spec: agentv1alpha1.ResourceRequestSpec{CPU: &cpu, Memory: &memory}}
		runtest.Check(t, s.Create(t.Context(), mine))
		s.buffer("taken", func(*autoscaling.CapacityBuffer) {})
		s.awaitReady("taken", metav1.ConditionFalse, agentv1alpha1.ReasonNameTaken, `resource request "taken" exists`)
		if err := s.agent.Delete(t.Context(), mine); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("the agent deletes the request of a user: %v, want a refusal", err)
		}
	})

	t.Run("room for the pods of a workload", func(t *testing.T) {
		pods := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "shop"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.k8s.io/pause:3.10.1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi")}},
		}}}}
		selector := &metav1.LabelSelector{MatchLabels: pods.Labels}
		meta := metav1.ObjectMeta{Namespace: "default", Name: "shop"}
		job := pods
		job.Labels, job.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
		for _, w := range []client.Object{
			&appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Replicas: new(int32(11)), Selector: selector, Template: pods}},
			&appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(11)), Selector: selector, Template: pods}},
			&appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(11)), Selector: selector, Template: pods}},
			&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{Parallelism: new(int32(11)), Template: job}},
		} {
			runtest.Check(t, s.Create(t.Context(), w))
		}
		room := func(name, group, kind string, percentage, replicas *int32, want string) {
			t.Helper()
			s.buffer(name, func(b *autoscaling.CapacityBuffer) {
				b.Spec = autoscaling.CapacityBufferSpec{
					ProvisioningStrategy: autoscaling.Strategy, Percentage: percentage, Replicas: replicas,
					ScalableRef: &autoscaling.ScalableReference{APIGroup: group, Kind: kind, Name: "shop"},
				}
			})
			runtest.Eventually(t, func(ctx context.Context) error {
				rr := &agentv1alpha1.ResourceRequest{}
				if err := s.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, rr); err != nil || rr.Spec.CPU.Cmp(resource.MustParse(want)) != 0 {
					return fmt.Errorf("%s asks for %v cores, want %s: %w", name, rr.Spec.CPU, want, err)
				}
				return nil
			})
		}
		room("shop-d", "apps", "Deployment", new(int32(20)), nil, "6") // 2.2 pods of two cores
		room("shop-r", "apps", "ReplicaSet", new(int32(1)), nil, "2")
		room("shop-s", "apps", "StatefulSet", new(int32(20)), new(int32(5)), "10")
		room("shop-j", "batch", "Job", nil, new(int32(2)), "4")
	})

	t.Run("another strategy", func(t *testing.T) {
		b := &autoscaling.CapacityBuffer{}
		runtest.Check(t, s.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "web"}, b))
		before := b.DeepCopy()
		b.Spec.ProvisioningStrategy = "buffer.x-k8s.io/active-capacity"
		runtest.Check(t, s.Patch(t.Context(), b, client.MergeFrom(before)))
		runtest.Eventually(t, func(ctx context.Context) error {
			if err := s.Get(ctx, client.ObjectKeyFromObject(b), &agentv1alpha1.ResourceRequest{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the request still exists: %v", err)
			}
			return nil
		})
	})
}
