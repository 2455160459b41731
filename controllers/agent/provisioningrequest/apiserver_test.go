package provisioningrequest_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/agenttest"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/provisioningrequest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/autoscaling"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// patience bounds the wait for a condition. It is long because the machine may be busy.
const patience = 2 * time.Minute

// agentAhead is the environment variable that sets the agent's clock ahead by a duration.
const agentAhead = "LRB_TEST_AGENT_AHEAD"

// aheadClock is a clock that is ahead by a duration.
type aheadClock struct {
	clock.RealClock
	by time.Duration
}

func (c aheadClock) Now() time.Time { return c.RealClock.Now().Add(c.by) }

func TestMain(m *testing.M) {
	agenttest.Main(m, func(mgr ctrl.Manager) error {
		ahead, err := time.ParseDuration(cmp.Or(os.Getenv(agentAhead), "0s"))
		if err != nil {
			return err
		}
		return provisioningrequest.New(mgr.GetClient(), provisioningrequest.Options{
			Reader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("agent"), Clock: aheadClock{by: ahead}, CheckInterval: 200 * time.Millisecond,
		}).SetupWhenServed(mgr)
	})
}

type site struct{ *agenttest.Site }

// agent is a process that runs the controller.
type agent struct {
	process *os.Process
	// ended is closed when the process has ended.
	ended chan struct{}
}

func (a *agent) kill() {
	_ = a.process.Kill()
	<-a.ended
}

// startAgent starts the agent with more environment variables.
func (s *site) startAgent(t *testing.T, env ...string) *agent {
	t.Helper()
	cmd := s.Agent(t, env...)
	runtest.Check(t, cmd.Start())
	a := &agent{process: cmd.Process, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait()
		close(a.ended)
	}()
	t.Cleanup(a.kill)
	return a
}

func (s *site) create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		runtest.Check(t, s.Create(t.Context(), o))
	}
}

func provisioningRequest(name, class string) *autoscaling.ProvisioningRequest {
	return &autoscaling.ProvisioningRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: name},
		Spec: autoscaling.ProvisioningRequestSpec{
			ProvisioningClassName: class,
			PodSets:               []autoscaling.PodSet{{PodTemplateRef: autoscaling.Reference{Name: "worker"}, Count: 2}},
			Parameters:            map[string]autoscaling.Parameter{"duration": "4h", "queuePolicy": "Queue", "maxPrice": "1.50 EUR"},
		},
	}
}

func podTemplate() *corev1.PodTemplate {
	amounts := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi")}
	return &corev1.PodTemplate{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "worker"},
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
			Name: "main", Image: "registry.k8s.io/pause:3.10.1", Resources: corev1.ResourceRequirements{Requests: amounts},
		}}}},
	}
}

// isTrue returns an error unless a condition is true.
func (s *site) isTrue(ctx context.Context, pr *autoscaling.ProvisioningRequest, kinds ...string) error {
	if err := s.Get(ctx, client.ObjectKeyFromObject(pr), pr); err != nil {
		return err
	}
	for _, kind := range kinds {
		if !meta.IsStatusConditionTrue(pr.Status.Conditions, kind) {
			return fmt.Errorf("%s is not true: %+v", kind, pr.Status.Conditions)
		}
	}
	return nil
}

// setStatus writes the status of a ResourceRequest in place of the broker.
func (s *site) setStatus(ctx context.Context, rr *agentv1alpha1.ResourceRequest, phase agentv1alpha1.ResourceRequestPhase, conditions ...metav1.Condition) error {
	before := rr.DeepCopy()
	rr.Status.Phase, rr.Status.ReservationName, rr.Status.TargetClusterID = phase, "res-k3v9x2m7qa", "paris"
	for _, c := range conditions {
		c.LastTransitionTime = metav1.Now()
		meta.SetStatusCondition(&rr.Status.Conditions, c)
	}
	return s.Status().Patch(ctx, rr, client.MergeFrom(before))
}

// The subtests share one API server with the CRD that kubernetes/autoscaler publishes. The agent has exactly the rights
// of the chart.
func TestProvisioningRequestsOnAPIServer(t *testing.T) {
	s := &site{agenttest.Start(t, chart.AgentWithProvisioning, "ml")}
	s.create(t, podTemplate())
	first := s.startAgent(t)
	s.Install(t, "testdata/autoscaling.x-k8s.io_provisioningrequests.yaml") // after the agent has started
	other := provisioningRequest("other", "check-capacity.autoscaling.x-k8s.io")
	s.create(t, other)

	t.Run("life", func(t *testing.T) {
		pr := provisioningRequest("life", autoscaling.ClassName)
		s.create(t, pr)
		runtest.Eventually(t, func(ctx context.Context) error { return s.isTrue(ctx, pr, autoscaling.Accepted) })
		all, err := s.Requests(t.Context(), pr)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d resource requests, %v", len(all), err)
		}
		rr := &all[0]
		runtest.Check(t, s.setStatus(t.Context(), rr, agentv1alpha1.RequestActive, metav1.Condition{Type: "Ready", Status: "True", Reason: "NodeReady"}))
		runtest.Eventually(t, func(ctx context.Context) error { return s.isTrue(ctx, pr, autoscaling.Provisioned) })
		if got := pr.Status.ProvisioningClassDetails[autoscaling.DetailRequestName]; string(got) != rr.Name {
			t.Errorf("detail RequestName is %q, want %q", got, rr.Name)
		}
		err = s.setStatus(t.Context(), rr, agentv1alpha1.RequestQueued, metav1.Condition{Type: "Ready", Status: "False", Reason: "Queued"},
			metav1.Condition{Type: "Preempted", Status: "True", Reason: "Preempted"})
		runtest.Check(t, err)
		runtest.Eventually(t, func(ctx context.Context) error {
			if err := s.isTrue(ctx, pr, autoscaling.CapacityRevoked, autoscaling.Failed); err != nil {
				return err
			}
			if err := s.Get(ctx, client.ObjectKeyFromObject(rr), rr); err != nil || !rr.Spec.Release {
				return fmt.Errorf("release %v, %v", rr.Spec.Release, err)
			}
			return nil
		})
	})

	t.Run("sample", func(t *testing.T) {
		s.Install(t, "../../../config/samples/autoscaling/provisioningrequest.yaml")
		pr := &autoscaling.ProvisioningRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "training"}}
		runtest.Eventually(t, func(ctx context.Context) error { return s.isTrue(ctx, pr, autoscaling.Accepted) })
	})

	t.Run("other requests of the agent are denied", func(t *testing.T) {
		limited, _ := s.Limited(t)
		cpu, memory := resource.MustParse("1"), resource.MustParse("1Gi")
		err := limited.Create(t.Context(), &agentv1alpha1.ResourceRequest{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "mine", Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue}},
			Spec:       agentv1alpha1.ResourceRequestSpec{CPU: &cpu, Memory: &memory},
		})
		if !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
			t.Errorf("error %v, want a refusal", err)
		}
	})

	t.Run("kills", func(t *testing.T) {
		first.kill()
		for _, point := range failpoint.Provisioning {
			t.Run(string(point), func(t *testing.T) {
				pr := provisioningRequest(string(point), autoscaling.ClassName)
				s.create(t, pr)
				select {
				case <-s.startAgent(t, failpoint.EnvName+"="+string(point)).ended:
				case <-time.After(patience):
					t.Fatal("the agent was not killed")
				}
				s.startAgent(t)
				runtest.Eventually(t, func(ctx context.Context) error { return s.isTrue(ctx, pr, autoscaling.Accepted) })
				if all, err := s.Requests(t.Context(), pr); err != nil || len(all) != 1 {
					t.Errorf("%d resource requests, %v", len(all), err)
				}
			})
		}
	})

	t.Run("a template that does not come", func(t *testing.T) {
		s.startAgent(t, agentAhead+"=1h")
		pr := provisioningRequest("untemplated", autoscaling.ClassName)
		pr.Spec.PodSets[0].PodTemplateRef.Name = "deleted"
		s.create(t, pr)
		runtest.Eventually(t, func(ctx context.Context) error { return s.isTrue(ctx, pr, autoscaling.Failed) })
		if all, err := s.Requests(t.Context(), pr); err != nil || len(all) > 0 {
			t.Errorf("%d resource requests, %v", len(all), err)
		}
	})

	if err := s.Get(t.Context(), client.ObjectKeyFromObject(other), other); err != nil || other.Generation != 1 || len(other.Status.Conditions) > 0 {
		t.Errorf("the request of another class was touched: %+v, %v", other, err)
	}
	if all, err := s.Requests(t.Context(), other); err != nil || len(all) > 0 {
		t.Errorf("the request of another class has %d resource requests, %v", len(all), err)
	}
}
