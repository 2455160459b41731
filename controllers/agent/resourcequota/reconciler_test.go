package resourcequota_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/resourcequota"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/chart"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane"
	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// member is a cluster with Kubernetes' own quota controller, and with this one, which has exactly
// the shipped rights.
type member struct {
	client.Client
	*testing.T
	// agent has the rights of the agent.
	agent client.Client
}

func startMember(t *testing.T) *member {
	plane := controlplanetest.Start(t, func(o *controlplane.Options) { o.ControllerManager = true })
	scheme := runtime.NewScheme()
	err := errors.Join(corev1.AddToScheme(scheme), agentv1alpha1.AddToScheme(scheme))
	m := &member{T: t}
	m.check(err)
	m.Client, err = client.New(plane.RESTConfig(), client.Options{Scheme: scheme})
	m.check(err)
	kubeconfig := controlplanetest.InstallAgent(t, plane, m.Client, chart.AgentForProcess, "team")
	rights, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	m.check(err)
	mgr, err := ctrl.NewManager(rights, ctrl.Options{Scheme: scheme, Logger: testr.New(t), Metrics: server.Options{BindAddress: "0"}})
	m.check(err)
	m.agent = mgr.GetClient()
	m.check(resourcequota.SetupWithManager(mgr))
	runtest.Start(t, mgr)
	return m
}

func (m *member) check(err error) {
	m.Helper()
	if err != nil {
		m.Fatal(err)
	}
}

// awaitUsed waits until the quota shows these amounts as used.
func (m *member) awaitUsed(want map[corev1.ResourceName]string) {
	m.Helper()
	var got corev1.ResourceQuota
	err := wait.PollUntilContextTimeout(m.Context(), 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		if err := m.Get(ctx, client.ObjectKey{Namespace: "team", Name: "requests"}, &got); err != nil {
			return false, err
		}
		for key, amount := range want {
			if used, ok := got.Status.Used[key]; !ok || used.Cmp(resource.MustParse(amount)) != 0 {
				return false, nil
			}
		}
		return len(got.Status.Used) == len(want), nil
	})
	if err != nil {
		m.Fatalf("used is %v, want %v: %v", got.Status.Used, want, err)
	}
}

func (m *member) request(name, cpu string) *agentv1alpha1.ResourceRequest {
	m.Helper()
	rr := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: name}}
	rr.Spec.CPU, rr.Spec.Memory = new(resource.MustParse(cpu)), new(resource.MustParse("1Gi"))
	m.check(m.Create(m.Context(), rr))
	return rr
}

func TestQuotasShowWhatRequestsUse(t *testing.T) {
	const key = corev1.ResourceName("resourcerequests.liqo.io/cpu")
	m := startMember(t)
	one := m.request("one", "3")
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "requests"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{key: resource.MustParse("16"), "count/configmaps": resource.MustParse("9")}},
	}
	m.check(m.Create(t.Context(), quota))
	// kube-controller-manager makes a ConfigMap in each namespace.
	m.awaitUsed(map[corev1.ResourceName]string{key: "3", "count/configmaps": "1"})
	m.request("two", "500m")
	m.awaitUsed(map[corev1.ResourceName]string{key: "4", "count/configmaps": "1"})
	// Kubernetes writes the status itself.
	m.check(m.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "another"}}))
	m.awaitUsed(map[corev1.ResourceName]string{key: "4", "count/configmaps": "2"})
	one.Status.Phase = agentv1alpha1.RequestFailed
	m.check(m.Status().Update(t.Context(), one))
	m.awaitUsed(map[corev1.ResourceName]string{key: "1", "count/configmaps": "2"})
	m.check(m.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
	delete(quota.Spec.Hard, key)
	m.check(m.Update(t.Context(), quota))
	m.awaitUsed(map[corev1.ResourceName]string{"count/configmaps": "2"})

	// The API server enforces a new policy after a moment.
	runtest.Await(t, "the policy that keeps the agent from changing what Kubernetes counts", func() bool {
		m.check(m.Get(t.Context(), client.ObjectKeyFromObject(quota), quota))
		before := quota.DeepCopy()
		quota.Status.Used["count/configmaps"] = resource.MustParse("7")
		err := m.agent.Status().Patch(t.Context(), quota, client.MergeFrom(before))
		return err != nil && strings.Contains(err.Error(), "the keys resourcerequests.liqo.io/")
	})
}
