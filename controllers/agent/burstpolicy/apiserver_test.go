package burstpolicy_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/agenttest"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/burstpolicy"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// patience bounds the wait for a condition. It is long because the machine may be busy.
const patience = 5 * time.Minute

func TestMain(m *testing.M) {
	agenttest.Main(m, func(mgr ctrl.Manager) error {
		clientset, err := kubernetes.NewForConfig(mgr.GetConfig())
		if err != nil {
			return err
		}
		watcher := capacity.New(clientset)
		err = burstpolicy.New(mgr.GetClient(), burstpolicy.Options{
			Pods: watcher, Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("agent"), Clock: clock.RealClock{}, Settle: 200 * time.Millisecond,
		}).SetupWithManager(mgr)
		return errors.Join(err, mgr.Add(watcher))
	})
}

// site is a cluster in which the test plays the scheduler, the broker and Liqo.
type site struct{ *agenttest.Site }

// startAgent starts an agent that is killed at the first of some failpoints. Another one continues, which is killed at
// the next, and so on. The returned channel is closed when the last agent has started, which is not killed.
func (s *site) startAgent(t *testing.T, kills ...failpoint.Point) (survived chan struct{}) {
	t.Helper()
	survived = make(chan struct{})
	over := make(chan struct{})
	go func() {
		defer close(over)
		for _, kill := range kills {
			if err := s.Agent(t, failpoint.EnvName+"="+string(kill)).Run(); t.Context().Err() != nil {
				return // the test has ended
			} else if err == nil {
				t.Errorf("the agent ended before it came to %s", kill)
			}
		}
		last := s.Agent(t)
		if err := last.Start(); err != nil {
			t.Error(err)
			return
		}
		close(survived)
		_ = last.Wait()
	}()
	t.Cleanup(func() { <-over }) // the end of the test's context kills the processes
	return survived
}

func (s *site) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		runtest.Check(t, s.Create(t.Context(), o))
	}
}

// openNamespace creates a namespace in which policies may let pods burst, with a policy.
func (s *site) openNamespace(t *testing.T, name string) *agentv1alpha1.BurstPolicy {
	t.Helper()
	policy := &agentv1alpha1.BurstPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"},
		Spec: agentv1alpha1.BurstPolicySpec{
			After: &metav1.Duration{}, IdleAfter: &metav1.Duration{Duration: 10 * time.Second},
			Limit: brokerv1alpha1.RequestedResources{corev1.ResourceCPU: resource.MustParse("10")},
		},
	}
	s.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{agentv1alpha1.BurstNamespaceLabel: "true"}}}, policy)
	err := s.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	return policy
}

// createPod creates a pod as the agent's webhook leaves it. The scheduler finds no node for it.
func (s *site) createPod(t *testing.T, namespace, name string, edit ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			AutomountServiceAccountToken: new(false),
			Tolerations:                  []corev1.Toleration{{Key: "virtual-node.liqo.io/not-allowed", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}},
			Containers:                   []corev1.Container{{Name: "main", Image: "registry.k8s.io/pause:3.10.1", Resources: corev1.ResourceRequirements{Requests: amounts, Limits: amounts}}},
		},
	}
	for _, f := range edit {
		f(pod)
	}
	s.create(t, pod)
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.Now(),
	}}
	runtest.Check(t, s.Status().Update(t.Context(), pod))
	return pod
}

// remove deletes a pod at once.
func (s *site) remove(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	runtest.Check(t, s.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
}

func (s *site) bind(t *testing.T, pod *corev1.Pod, node string) {
	t.Helper()
	binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	runtest.Check(t, s.SubResource("binding").Create(t.Context(), pod, binding))
}

// awaitRequest waits for the only request of a policy, which asks for a number of cores.
func (s *site) awaitRequest(t *testing.T, policy *agentv1alpha1.BurstPolicy, cores string) *agentv1alpha1.ResourceRequest {
	t.Helper()
	var rr *agentv1alpha1.ResourceRequest
	runtest.Eventually(t, func(ctx context.Context) error {
		s.resetPause(t, policy)
		all, err := s.Requests(ctx, policy)
		if err != nil || len(all) != 1 || all[0].Spec.CPU.String() != cores {
			return fmt.Errorf("%d requests, %v", len(all), err)
		}
		rr = &all[0]
		return nil
	})
	return rr
}

// grant answers a request in place of the broker: it grants a number of cores, and creates the virtual node.
func (s *site) grant(t *testing.T, rr *agentv1alpha1.ResourceRequest, cores, node string, refused bool) {
	t.Helper()
	rr.Status.Phase, rr.Status.NodeName, rr.Status.ObservedGeneration = agentv1alpha1.RequestActive, node, rr.Generation
	rr.Status.Granted = &brokerv1alpha1.Granted{Resources: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cores), corev1.ResourceMemory: resource.MustParse(cores + "Gi"),
	}}
	meta.RemoveStatusCondition(&rr.Status.Conditions, agentv1alpha1.ConditionChanged)
	if refused {
		meta.SetStatusCondition(&rr.Status.Conditions, metav1.Condition{Type: agentv1alpha1.ConditionChanged, Status: metav1.ConditionFalse, Reason: agentv1alpha1.ReasonChangeRefused})
	}
	runtest.Check(t, s.Status().Update(t.Context(), rr))
	labels := agentv1alpha1.RequestNodeLabels(rr.Namespace, rr.Name)
	labels["liqo.io/type"] = "virtual-node"
	err := s.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// resetPause moves the last change of a policy into the past, so that the test need not wait for a minute.
func (s *site) resetPause(t *testing.T, policy *agentv1alpha1.BurstPolicy) {
	t.Helper()
	runtest.Eventually(t, func(ctx context.Context) error {
		if err := s.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
			return err
		}
		if last := policy.Status.LastChange; last == nil || time.Since(last.At.Time) > time.Minute {
			return nil
		}
		before := policy.DeepCopy()
		policy.Status.LastChange.At = metav1.NewTime(time.Now().Add(-time.Hour))
		return s.Status().Patch(ctx, policy, client.MergeFrom(before))
	})
}

// The subtests share one API server. The agent has exactly the rights of the chart.
func TestBurstPoliciesOnAPIServer(t *testing.T) {
	s := &site{agenttest.Start(t, chart.AgentWithBursts)}

	t.Run("the agent writes no other requests", func(t *testing.T) {
		limited, _ := s.Limited(t)
		cpu, memory := resource.MustParse("1"), resource.MustParse("1Gi")
		mine := &agentv1alpha1.ResourceRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine", Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue}},
			Spec:       agentv1alpha1.ResourceRequestSpec{CPU: &cpu, Memory: &memory},
		}
		refused := func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) }
		// The API server enforces a new admission policy only after a moment.
		runtest.Eventually(t, func(ctx context.Context) error {
			if err := limited.Create(ctx, mine.DeepCopy(), client.DryRunAll); !refused(err) {
				return fmt.Errorf("creating: %v, want a refusal", err)
			}
			return nil
		})
		s.create(t, mine)
		if err := limited.Delete(t.Context(), mine); !refused(err) {
			t.Errorf("deleting: %v, want a refusal", err)
		}
	})

	t.Run("schema", func(t *testing.T) {
		for name, edit := range map[string]func(*agentv1alpha1.BurstPolicy){
			"no limit":       func(p *agentv1alpha1.BurstPolicy) { p.Spec.Limit = nil },
			"an empty limit": func(p *agentv1alpha1.BurstPolicy) { p.Spec.Limit = brokerv1alpha1.RequestedResources{} },
			"idle at once":   func(p *agentv1alpha1.BurstPolicy) { p.Spec.IdleAfter = &metav1.Duration{} },
			"a long name":    func(p *agentv1alpha1.BurstPolicy) { p.Name = "a234567890123456789012345678901234567890123456" },
			"a timeout alone": func(p *agentv1alpha1.BurstPolicy) {
				p.Spec.Template.Spec.QueueTimeout = &metav1.Duration{Duration: time.Hour}
			},
			"pods that are pinned": func(p *agentv1alpha1.BurstPolicy) {
				p.Spec.Template.Spec.Offloading = &agentv1alpha1.Offloading{PodCompliance: agentv1alpha1.PodComplianceEnforce}
			},
		} {
			p := &agentv1alpha1.BurstPolicy{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "wrong"},
				Spec:       agentv1alpha1.BurstPolicySpec{Limit: brokerv1alpha1.RequestedResources{corev1.ResourceCPU: resource.MustParse("1")}},
			}
			edit(p)
			if err := s.Create(t.Context(), p); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v, want a refusal", name, err)
			}
		}
	})

	t.Run("skipped pods", func(t *testing.T) {
		policy := s.openNamespace(t, "skipped")
		s.startAgent(t)
		s.createPod(t, "skipped", "pod", func(p *corev1.Pod) { p.Spec.HostNetwork = true })
		runtest.Eventually(t, func(ctx context.Context) error {
			if err := s.Get(ctx, client.ObjectKeyFromObject(policy), policy); err != nil {
				return err
			}
			if policy.Status.SkippedPods != 1 || policy.Status.Skipped[0].Reason != agentv1alpha1.ReasonHostAccess {
				return fmt.Errorf("status %+v", policy.Status)
			}
			return nil
		})
		if all, err := s.Requests(t.Context(), policy); err != nil || len(all) > 0 {
			t.Errorf("%d requests, %v", len(all), err)
		}
	})

	// The agent is killed after each of its writes in the life of a burst, and another one continues.
	lives := map[string][]failpoint.Point{"killed at every point": failpoint.Bursting}
	if !testing.Short() {
		for _, point := range failpoint.Bursting {
			lives["killed at "+string(point)] = []failpoint.Point{point}
		}
	}
	for name, kills := range lives {
		t.Run(name, func(t *testing.T) {
			node := "res-" + rand.String(10) + "-1"
			policy := s.openNamespace(t, "killed-"+rand.String(8))
			survived := s.startAgent(t, kills...)
			one := s.createPod(t, policy.Namespace, "one")
			s.grant(t, s.awaitRequest(t, policy, "1"), "1", node, false)
			runtest.Eventually(t, func(ctx context.Context) error {
				n := &corev1.Node{}
				if err := s.Get(ctx, client.ObjectKey{Name: node}, n); err != nil || n.Labels[agentv1alpha1.BurstLabel] != policy.Name {
					return fmt.Errorf("node %v, %v", n.Labels, err)
				}
				return nil
			})
			s.bind(t, one, node)
			two := s.createPod(t, policy.Namespace, "two")
			rr := s.awaitRequest(t, policy, "2")
			s.remove(t, two)
			s.grant(t, rr, "1", node, true)
			rr = s.awaitRequest(t, policy, "1") // the agent takes back the increase that the broker refused
			s.grant(t, rr, "1", node, false)
			s.remove(t, one)
			runtest.Eventually(t, func(ctx context.Context) error {
				s.resetPause(t, policy)
				all, err := s.Requests(ctx, policy)
				if err != nil || len(all) > 0 {
					return fmt.Errorf("%d requests, %v", len(all), err)
				}
				return nil
			})
			select {
			case <-survived:
			case <-time.After(patience):
				t.Fatal("the agent was not killed as often as it should")
			}
		})
	}
}
