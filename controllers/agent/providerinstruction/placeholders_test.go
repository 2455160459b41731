package providerinstruction

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// bench is a provider with one placement of two cores and a GPU.
type bench struct {
	*testing.T
	*placeholderKeeper
	inst *agentv1alpha1.ProviderInstruction
}

func newBench(t *testing.T) *bench {
	t.Helper()
	inst := newInstruction()
	inst.Name, inst.Spec.ReservationName = "res-abcdefghij-1", "res-abcdefghij"
	inst.Spec.Hold, inst.Status.Enforced = agentv1alpha1.HoldPlaceholder, true
	inst.Spec.Resources = corev1.ResourceList{
		"cpu": resource.MustParse("2"), "memory": resource.MustParse("2Gi"), "pods": resource.MustParse("10"), "nvidia.com/gpu": resource.MustParse("1"),
	}
	r := newReconciler(t, &broker{}, always(admission.Decision{Admitted: true}), inst)
	room := func(nodes []string) map[string]quantity.Amounts {
		free := map[string]quantity.Amounts{}
		for _, n := range nodes {
			free[n] = quantity.Amounts{"cpu": 2000, "memory": 2 << 30, "nvidia.com/gpu": 1, "pods": 10}
		}
		return free
	}
	opts := &Placeholders{Namespace: "broker-system", Image: "registry.example.com/pause:1", PriorityClass: "agent-placeholder", Room: room, Confine: confinePod}
	return &bench{T: t, inst: inst, placeholderKeeper: &placeholderKeeper{Reconciler: r, opts: opts, pods: r.client}}
}

// confinePod confines a pod like the agent of a cluster that offers nodes with taint "dedicated".
func confinePod(pod *corev1.PodSpec, placement *agentv1alpha1.ProviderInstructionSpec) {
	nodes := enforcement.LentNodes{Selector: labels.Everything(), Taints: []brokerv1alpha1.Taint{{Key: "dedicated", Effect: "NoSchedule"}}}.For(placement)
	nodes.Confine(pod)
}

func TestPlaceholdersKeepRoomOnTheNodesAskedFor(t *testing.T) {
	b := newBench(t)
	b.inst.Spec.NodeSelector = map[string]brokerv1alpha1.LabelValue{"gpu": "a100"}
	b.inst.Spec.Tolerations = []brokerv1alpha1.Toleration{{Key: "dedicated"}}
	b.check(b.client.Update(t.Context(), b.inst))
	pods := b.look()
	if len(pods) != 2 {
		t.Fatalf("%d placeholders, want 2", len(pods))
	}
	for i := range pods {
		if spec := &pods[i].Spec; !enforcement.IsBound(spec, map[string]string{"gpu": "a100"}) || len(spec.Tolerations) != 2 ||
			spec.Tolerations[0].Key != "dedicated" || spec.Tolerations[1].Key != "nvidia.com/gpu" {
			t.Errorf("placeholder %s has affinity %+v and tolerations %+v", pods[i].Name, spec.Affinity, spec.Tolerations)
		}
	}
}

func (b *bench) check(err error) {
	b.Helper()
	runtest.Check(b, err)
}

// look reconciles and returns the placeholders sorted by name.
func (b *bench) look() []corev1.Pod {
	b.Helper()
	b.check(b.applyPlan(b.Context()))
	var pods corev1.PodList
	b.check(b.client.List(b.Context(), &pods, client.InNamespace(b.opts.Namespace)))
	return pods.Items
}

// held returns the condition Held that describeHold sets on the instruction.
func (b *bench) held() *metav1.Condition {
	b.describeHold(b.inst)
	return meta.FindStatusCondition(b.inst.Status.Conditions, agentv1alpha1.ConditionHeld)
}

func (b *bench) bind(pods []corev1.Pod) {
	b.Helper()
	for i := range pods {
		pods[i].Spec.NodeName = "n1"
		b.check(b.client.Update(b.Context(), &pods[i]))
	}
}

func TestPlaceholdersComeAndGoWithTheirPlacement(t *testing.T) {
	b := newBench(t)
	pods := b.look()
	if len(pods) != 2 {
		t.Fatalf("%d placeholders, want one for each core", len(pods))
	}
	gpus := 0
	for i := range pods {
		spec := &pods[i].Spec
		if spec.PriorityClassName != "agent-placeholder" || spec.Containers[0].Image != "registry.example.com/pause:1" ||
			*spec.TerminationGracePeriodSeconds != 0 || *spec.AutomountServiceAccountToken {
			t.Errorf("placeholder %+v", spec)
		}
		// Kubernetes rejects a device request without an equal limit.
		gpus += len(spec.Containers[0].Resources.Limits)
		if diff := cmp.Diff(spec.Containers[0].Resources.Requests["nvidia.com/gpu"], spec.Containers[0].Resources.Limits["nvidia.com/gpu"]); diff != "" {
			t.Errorf("GPU requests and limits (-requests +limits):\n%s", diff)
		}
	}
	if gpus != 1 {
		t.Errorf("%d placeholders have the GPU, want 1", gpus)
	}
	if again := b.look(); len(again) != 2 {
		t.Errorf("%d placeholders at the second look", len(again))
	}
	if c := b.held(); c == nil || c.Status != metav1.ConditionFalse || c.Reason != agentv1alpha1.ReasonHoldIncomplete {
		t.Errorf("without a node: condition %+v", c)
	}
	b.bind(pods)
	b.look()
	if c := b.held(); c == nil || c.Status != metav1.ConditionTrue {
		t.Errorf("on a node: condition %+v", c)
	}

	b.inst.Spec.Release = true
	b.check(b.client.Update(t.Context(), b.inst))
	if left := b.look(); len(left) != 0 {
		t.Errorf("%d placeholders after the release", len(left))
	}
	if c := b.held(); c != nil {
		t.Errorf("after the release: condition %+v", c)
	}
}

func TestPlaceholdersGoWhereTheLedgerHolds(t *testing.T) {
	b := newBench(t)
	b.look()
	b.inst.Spec.Hold = agentv1alpha1.HoldLedger
	b.check(b.client.Update(t.Context(), b.inst))
	if left := b.look(); len(left) != 0 || b.held() != nil {
		t.Errorf("%d placeholders are left, condition %+v", len(left), b.held())
	}
}

func TestPlaceholderYieldsToPodOfItsPlacement(t *testing.T) {
	b := newBench(t)
	b.bind(b.look())
	before := b.look()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo-rome", Name: "web",
			Labels:          map[string]string{"offloading.liqo.io/nodename": b.inst.Name},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: "web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"cpu": resource.MustParse("400m"), "memory": resource.MustParse("1Gi")},
		}}}},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable}}},
	}
	b.check(b.client.Create(t.Context(), pod))
	after := b.look()
	b.check(b.client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
	if pod.Status.NominatedNodeName != "n1" {
		t.Errorf("the pod is nominated for %q, want n1", pod.Status.NominatedNodeName)
	}
	stayed := slices.DeleteFunc(slices.Clone(after), func(p corev1.Pod) bool { return p.Spec.NodeName == "" })
	rest := slices.DeleteFunc(after, func(p corev1.Pod) bool { return p.Spec.NodeName != "" })
	if len(before) != 2 || len(stayed) != 1 || len(rest) != 1 {
		t.Fatalf("of %d placeholders %d stayed and %d came, want 2, 1 and 1", len(before), len(stayed), len(rest))
	}
	if cpu := rest[0].Spec.Containers[0].Resources.Requests["cpu"]; cpu.String() != "600m" || rest[0].Status.NominatedNodeName != "n1" {
		t.Errorf("what remains of the other is %s, for node %q; want 600m, n1", cpu.String(), rest[0].Status.NominatedNodeName)
	}
}
