package resourcerequest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/advertisement"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/resourcerequest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/inbox"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/transport/transporttest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// patience bounds the wait for a condition. It is long because the machine may be busy.
const patience = 5 * time.Minute

// member is a cluster with an administrator and with an agent that has exactly the shipped
// rights.
type member struct {
	client.Client
	*testing.T
	broker *transporttest.Direct
	// agent ends with the agent; its cause is the agent's error.
	agent context.Context
}

func startMember(t *testing.T) *member {
	plane := controlplanetest.Start(t)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, agentv1alpha1.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	admin, err := client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	runtest.Check(t, err)
	m := &member{Client: admin, T: t, broker: transporttest.New("rome")}
	m.startAgent(scheme, controlplanetest.InstallAgent(t, plane, admin, chart.AgentForProcess))
	return m
}

func (m *member) startAgent(scheme *runtime.Scheme, kubeconfig string) {
	m.Helper()
	rights, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	runtest.Check(m, err)
	rights.QPS = -1
	mgr, err := ctrl.NewManager(rights, ctrl.Options{
		Scheme: scheme, Logger: testr.New(m.T),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	runtest.Check(m, err)
	kubernetesClient, err := kubernetes.NewForConfig(rights)
	runtest.Check(m, err)
	accounts := capacity.New(kubernetesClient)
	for _, runnable := range []manager.Runnable{
		accounts,
		inbox.NewInstructions(mgr.GetClient(), m.broker, inbox.Options{}),
	} {
		runtest.Check(m, mgr.Add(runnable))
	}
	err = errors.Join(
		advertisement.New(mgr.GetClient(), m.broker, accounts, mgr.GetEventRecorder("advertisement"),
			// Changes made while the broker was away are published after one interval.
			advertisement.Options{ClusterID: "rome", Interval: 2 * time.Second}).SetupWithManager(mgr),
		resourcerequest.New(mgr.GetClient(), m.broker, mgr.GetEventRecorder("resourcerequest"),
			// The agent's rights do not allow caching bounds.
			resourcerequest.Options{ClusterID: "rome", Reader: mgr.GetAPIReader()}).SetupWithManager(mgr),
	)
	runtest.Check(m, err)
	ctx, stop := context.WithCancel(m.Context())
	agent, ended := context.WithCancelCause(m.Context())
	stopped := make(chan error, 1)
	go func() {
		err := mgr.Start(ctx)
		ended(fmt.Errorf("the agent has ended: %v", err))
		stopped <- err
	}()
	m.agent = agent
	m.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil {
			m.Errorf("agent: %v", err)
		}
	})
}

// eventually waits until check returns nil. It fails when the agent stops.
func (m *member) eventually(t *testing.T, check func(ctx context.Context) error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(m.agent, 20*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("%v: %v", cmp.Or(context.Cause(m.agent), err), last)
	}
}

func (m *member) ask(t *testing.T, name string) *agentv1alpha1.ResourceRequest {
	t.Helper()
	cpu, memory := resource.MustParse("500m"), resource.MustParse("256Mi")
	rr := &agentv1alpha1.ResourceRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       agentv1alpha1.ResourceRequestSpec{CPU: &cpu, Memory: &memory, Priority: 10},
	}
	runtest.Check(t, m.Create(t.Context(), rr))
	return rr
}

// expectPhase waits for a phase, and updates the request.
func (m *member) expectPhase(t *testing.T, rr *agentv1alpha1.ResourceRequest, phase agentv1alpha1.ResourceRequestPhase, reason string) {
	t.Helper()
	m.eventually(t, func(ctx context.Context) error {
		if err := m.Get(ctx, client.ObjectKeyFromObject(rr), rr); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(rr.Status.Conditions, agentv1alpha1.ConditionReady)
		if rr.Status.Phase != phase || ready == nil || ready.Reason != reason {
			return fmt.Errorf("phase %s, Ready %+v", rr.Status.Phase, ready)
		}
		return nil
	})
}

func (m *member) expectGone(t *testing.T, rr *agentv1alpha1.ResourceRequest) {
	t.Helper()
	m.eventually(t, func(ctx context.Context) error {
		if err := m.Get(ctx, client.ObjectKeyFromObject(rr), rr); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %+v (%w)", rr.Status, err)
		}
		return nil
	})
}

// takeDown acts as the instruction controller: it deletes released instructions.
func (m *member) takeDown(t *testing.T) {
	t.Helper()
	m.eventually(t, func(ctx context.Context) error {
		var list agentv1alpha1.ReservationInstructionList
		if err := m.List(ctx, &list); err != nil {
			return err
		}
		for i := range list.Items {
			if !list.Items[i].Spec.Release {
				return fmt.Errorf("instruction %q is not released", list.Items[i].Name)
			}
			if err := m.Delete(ctx, &list.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestAgentOnARealAPIServer(t *testing.T) {
	m := startMember(t)
	t.Run("what the cluster offers is counted, shown and told", m.testOffer)
	t.Run("a request is reserved, becomes active and is given back", m.testLife)
	t.Run("a request that is deleted in flight leaves no reservation", m.testDeletedInFlight)
	t.Run("a broker that is away is waited for, and a deletion waits too", m.testBrokerAway)
	t.Run("a provider's instruction is written down", m.testProvider)
}

func (m *member) testOffer(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
	runtest.Check(t, m.Create(t.Context(), node))
	node.Status = corev1.NodeStatus{
		Capacity:    corev1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"), "pods": resource.MustParse("110")},
		Allocatable: corev1.ResourceList{"cpu": resource.MustParse("7"), "memory": resource.MustParse("14Gi"), "pods": resource.MustParse("110")},
		Conditions:  []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	runtest.Check(t, m.Status().Update(t.Context(), node))
	// No controller creates service accounts here, and the test pod needs none.
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: corev1.PodSpec{NodeName: "n1", AutomountServiceAccountToken: new(false), Containers: []corev1.Container{{
			Name: "c", Image: "none", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}},
		}}},
	}
	m.eventually(t, func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(m.Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "default"}}))
	})
	m.eventually(t, func(ctx context.Context) error { return client.IgnoreAlreadyExists(m.Create(ctx, pod)) })
	expect := func(available string) {
		t.Helper()
		adv := &agentv1alpha1.Advertisement{}
		m.eventually(t, func(ctx context.Context) error {
			if err := m.Get(ctx, client.ObjectKey{Namespace: "default", Name: "cluster-advertisement"}, adv); err != nil {
				return err
			}
			if got := adv.Spec.Resources.Available.Cpu().String(); got != available || !adv.Status.Published {
				return fmt.Errorf("available %s, published %t", got, adv.Status.Published)
			}
			return nil
		})
	}
	expect("5")
	pod.Status.Phase = corev1.PodSucceeded
	runtest.Check(t, m.Status().Update(t.Context(), pod))
	expect("7")
	told := m.broker.Advertised()
	if last := told[len(told)-1]; last.Allocatable["cpu"] != "7" || last.Capacity["cpu"] != "8" {
		t.Errorf("told %+v", last)
	}
}

func (m *member) testLife(t *testing.T) {
	rr := m.ask(t, "life")
	m.expectPhase(t, rr, agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
	if rr.Status.TargetClusterID != "paris" || rr.Status.ReservationName == "" || !rr.Status.Asked {
		t.Errorf("status %+v", rr.Status)
	}
	inst := &agentv1alpha1.ReservationInstruction{}
	runtest.Check(t, m.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: rr.Status.ReservationName + "-1"}, inst))
	inst.Status.NodeName, inst.Status.Delivered = inst.Name, true
	inst.Status.Conditions = []metav1.Condition{{
		Type: agentv1alpha1.ConditionNodeReady, Status: metav1.ConditionTrue, Reason: agentv1alpha1.ReasonNodeReady,
		LastTransitionTime: metav1.Time{Time: time.Unix(1, 0)},
	}}
	runtest.Check(t, m.Status().Update(t.Context(), inst))
	m.expectPhase(t, rr, agentv1alpha1.RequestActive, agentv1alpha1.ReasonNodeReady)
	m.eventually(t, func(ctx context.Context) error {
		var list corev1.EventList
		if err := m.List(ctx, &list, client.InNamespace("default")); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].InvolvedObject.Name == "life" && list.Items[i].Reason == agentv1alpha1.ReasonNodeReady {
				return nil
			}
		}
		return fmt.Errorf("no event among %d", len(list.Items))
	})
	runtest.Check(t, m.Delete(t.Context(), rr))
	m.takeDown(t)
	m.expectGone(t, rr)
	if held := m.broker.Held(); len(held) > 0 {
		t.Errorf("the broker still holds %v", held)
	}
}

func (m *member) testDeletedInFlight(t *testing.T) {
	arrived, answer := make(chan struct{}), make(chan error, 1)
	m.broker.SetBeforeAnswer(func(ctx context.Context) error {
		close(arrived)
		select {
		case err := <-answer:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	rr := m.ask(t, "in-flight")
	m.eventually(t, func(context.Context) error {
		select {
		case <-arrived:
			return nil
		default:
			return fmt.Errorf("the broker was not asked; it was asked for %q", m.broker.Requests())
		}
	})
	m.broker.SetBeforeAnswer(nil)
	if held := m.broker.Held(); len(held) != 1 {
		t.Fatalf("held %v", held)
	}
	runtest.Check(t, m.Delete(t.Context(), rr))
	answer <- errors.New("connection reset")
	m.takeDown(t)
	m.expectGone(t, rr)
	if held := m.broker.Held(); len(held) > 0 {
		t.Errorf("the broker still holds %v", held)
	}
}

func (m *member) testBrokerAway(t *testing.T) {
	m.broker.SetDown(true)
	rr := m.ask(t, "away")
	m.expectPhase(t, rr, agentv1alpha1.RequestPending, agentv1alpha1.ReasonBrokerUnreachable)
	m.broker.SetDown(false)
	m.expectPhase(t, rr, agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)

	m.broker.SetDown(true)
	runtest.Check(t, m.Delete(t.Context(), rr))
	m.takeDown(t)
	m.expectPhase(t, rr, agentv1alpha1.RequestReleasing, agentv1alpha1.ReasonBrokerUnreachable)
	m.broker.SetDown(false)
	m.expectGone(t, rr)
}

func (m *member) testProvider(t *testing.T) {
	minute := 60.0
	m.broker.Instruct(v1.Instruction{
		Reservation: "res-zzzzzzzzzz", Placement: 1, Role: v1.InstructionRoleProvider, State: v1.InstructionStateHold,
		ConsumerID: "berlin", ProviderID: "rome", Resources: v1.Amounts{"cpu": "1"}, RemainingSeconds: &minute,
	})
	inst := &agentv1alpha1.ProviderInstruction{}
	key := client.ObjectKey{Namespace: "default", Name: "res-zzzzzzzzzz-1"}
	m.eventually(t, func(ctx context.Context) error { return m.Get(ctx, key, inst) })

	// Enforced capacity counts as reserved, and is published to the broker at once.
	inst.Status.Enforced = true
	runtest.Check(t, m.Status().Update(t.Context(), inst))
	m.eventually(t, func(context.Context) error {
		told := m.broker.Advertised()
		if last := told[len(told)-1]; len(last.Usage) != 1 || last.Usage[0].Reservation != "res-zzzzzzzzzz" {
			return fmt.Errorf("usage %+v", last.Usage)
		}
		return nil
	})
}
