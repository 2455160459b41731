package agent

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	placement = "res-0123456789-1"
	landing   = "demo-rome"
)

// offloadedPodOf returns the pod that Liqo creates for a ShadowPod.
func offloadedPodOf(name, cpu string, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: landing, Name: name, UID: types.UID(name),
			Labels:          map[string]string{"liqo.io/creator-user": placement + "-0123456789ab"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: name, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{}}}}},
	}
	if cpu != "" {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func newPodJudge(t *testing.T, change func(*agentv1alpha1.ProviderInstruction)) *podJudge {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, corev1.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	inst := &agentv1alpha1.ProviderInstruction{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: placement, Finalizers: []string{"liqo.io/broker-peering"}},
		Spec:       agentv1alpha1.ProviderInstructionSpec{RequesterClusterID: "rome"},
		Status: agentv1alpha1.ProviderInstructionStatus{Enforced: true, Granted: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("256Mi"),
		}},
	}
	if change != nil {
		change(inst)
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(inst, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: landing, Labels: map[string]string{"liqo.io/remote-cluster-id": "rome"}},
	}).Build()
	return &podJudge{
		OffloadedPods: OffloadedPods{
			InstructionNamespace: "default", Book: enforcement.NewBook(), Synced: func() bool { return true },
			Nodes: func() (enforcement.LentNodes, bool) {
				selector, _ := labels.Parse("pool=lend")
				return enforcement.LentNodes{Selector: selector}, true
			},
			Guards: func(context.Context, string) (bool, error) { return true, nil },
			HasShadowPod: func(_ context.Context, _ types.NamespacedName, uid types.UID) (bool, error) {
				return uid != "invented", nil
			},
			Clock: clocktesting.NewFakePassiveClock(time.Unix(1000, 0)),
		},
		cache: c, reader: c, refused: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "refused"}, []string{"consumer"}),
	}
}

func requestFor(t *testing.T, pod *corev1.Pod) admission.Request {
	t.Helper()
	raw, err := json.Marshal(pod)
	runtest.Check(t, err)
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		Operation: admissionv1.Create, Namespace: pod.Namespace, Name: pod.Name, Object: runtime.RawExtension{Raw: raw},
	}}
}

func TestOffloadedPodsAreAdmittedByGrant(t *testing.T) {
	for name, tc := range map[string]struct {
		inst func(*agentv1alpha1.ProviderInstruction)
		pod  *corev1.Pod
		// before is another running pod.
		before *corev1.Pod
		judge  func(*podJudge)
		code   int32
		// says is part of the message of a refusal; "" means that the pod is admitted.
		says string
	}{
		"a pod that fits": {pod: offloadedPodOf("a", "500m")},
		"a pod that does not fit beside another": {
			pod: offloadedPodOf("a", "300m"), before: offloadedPodOf("b", "250m"), code: 403,
			says: `placement "res-0123456789-1" is granted 500m of cpu, its other 1 pods use 250m (terminating ones count until they have ended) and this one requests 300m`,
		},
		"a pod that does not fit because of the overhead of its RuntimeClass": {
			pod: offloadedPodOf("a", "400m", func(p *corev1.Pod) {
				p.Spec.RuntimeClassName, p.Spec.Overhead = new("kata"), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("250m")}
			}),
			code: 403, says: `this one requests 650m (with 250m of overhead of RuntimeClass "kata" here)`,
		},
		"a resource that is not granted": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
			}),
			code: 403, says: `is granted no nvidia.com/gpu, the pod requests 1`,
		},
		"the reservation has ended": {
			inst: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.Release = true }, pod: offloadedPodOf("a", "1m"),
			code: 403, says: `cluster "rome" has no live reservation for placement "res-0123456789-1"`,
		},
		"the reservation is not acknowledged": {
			inst: func(i *agentv1alpha1.ProviderInstruction) { i.Status.Enforced = false }, pod: offloadedPodOf("a", "1m"),
			code: 403, says: `no live reservation`,
		},
		"a placement of another consumer": {
			inst: func(i *agentv1alpha1.ProviderInstruction) { i.Spec.RequesterClusterID = "berlin" }, pod: offloadedPodOf("a", "1m"),
			code: 403, says: `cluster "rome" has no live reservation`,
		},
		"an unknown placement": {
			pod:  offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Labels["liqo.io/creator-user"] = "res-9999999999-1-0123456789ab" }),
			code: 403, says: `cluster "rome" has no live reservation for placement "res-9999999999-1"`,
		},
		"a pod without a placement": {
			pod:  offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Labels["liqo.io/creator-user"] = "someone" }),
			code: 403, says: `this one names none`,
		},
		"a pod without a placement in a peering that a user created": {
			pod:   offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Labels["liqo.io/creator-user"] = "someone" }),
			judge: func(j *podJudge) { j.Guards = func(context.Context, string) (bool, error) { return false, nil } },
		},
		"a pod that may run on nodes that were not granted": {
			inst: forA100, pod: offloadedPodOf("a", "1m"), code: 403,
			says: `placement "res-0123456789-1" was granted for nodes with gpu=a100 and the pod may run elsewhere`,
		},
		"a pod of which one term allows other nodes": {
			inst: forA100, pod: offloadedPodOf("a", "1m", allowing("gpu", "a100"), allowing("zone", "b")), code: 403, says: `may run elsewhere`,
		},
		"a pod that tolerates a taint it was not granted": {
			pod: offloadedPodOf("a", "1m", tolerating("dedicated")), code: 403,
			says: `placement "res-0123456789-1" was not granted a toleration of dedicated: name it in constraints.tolerations`,
		},
		"a pod that tolerates a taint of Kubernetes": {pod: offloadedPodOf("a", "1m", tolerating("node.kubernetes.io/not-ready"))},
		"a pod bound to the nodes that were granted": {inst: forA100, pod: offloadedPodOf("a", "1m", allowing("gpu", "a100"))},
		"a pod of an administrator":                  {pod: offloadedPodOf("a", "64", func(p *corev1.Pod) { p.OwnerReferences = nil })},
		"a pod that names its node": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Spec.NodeName = "paris-1" }), code: 403, says: `names node "paris-1"`,
		},
		"a pod on the host's network": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Spec.HostNetwork = true }), judge: forbidHostAccess,
			code: 403, says: `may not have hostNetwork: remove it`,
		},
		"a pod among the host's processes": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Spec.HostPID = true }), judge: forbidHostAccess, code: 403, says: `hostPID`,
		},
		"a pod in the host's memory": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Spec.HostIPC = true }), judge: forbidHostAccess, code: 403, says: `hostIPC`,
		},
		"a pod with a folder of the host": {
			pod: offloadedPodOf("a", "1m", mountHost), judge: forbidHostAccess, code: 403, says: `volume "host" of type hostPath`,
		},
		"a pod with a folder of the host, where guard.podSecurity is off": {pod: offloadedPodOf("a", "1m", mountHost)},
		"a pod with a privileged container": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) {
				p.Spec.InitContainers = []corev1.Container{{Name: "setup", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}
			}),
			judge: forbidHostAccess, code: 403, says: `privileged container "setup"`,
		},
		"a pod without privileges": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) {
				p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(false)}
				p.Spec.Volumes = []corev1.Volume{{Name: "tmp"}}
			}),
			judge: forbidHostAccess,
		},
		"a pod whose ShadowPod does not exist": {
			pod:  offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "invented" }),
			code: 403, says: `there is no ShadowPod "demo-rome/a" with UID "invented"`,
		},
		"a negative request": {pod: offloadedPodOf("a", "-1"), code: 403, says: `container "a": resource "cpu": "-1"`},
		"an agent that has not read all pods": {
			pod: offloadedPodOf("a", "1m"), judge: func(j *podJudge) { j.Synced = func() bool { return false } }, code: 503, says: "has not read all pods yet",
		},
		"a namespace that is gone": {
			pod: offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Namespace = "other" }), code: 500, says: `reading namespace "other"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			j := newPodJudge(t, tc.inst)
			if tc.judge != nil {
				tc.judge(j)
			}
			if tc.before != nil {
				j.Book.OnAdd(tc.before, false)
			}
			got := j.admitPod(t.Context(), requestFor(t, tc.pod))
			if got.Allowed != (tc.says == "") {
				t.Fatalf("allowed %t: %+v", got.Allowed, got.Result)
			}
			if !got.Allowed && (got.Result.Code != tc.code || !strings.Contains(got.Result.Message, tc.says)) {
				t.Errorf("code %d, message %q", got.Result.Code, got.Result.Message)
			}
		})
	}
}

func forbidHostAccess(j *podJudge) { j.ForbidHostAccess = true }

func mountHost(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
}

func TestRefusedPodsAreCountedAndDryRunsAreNot(t *testing.T) {
	j := newPodJudge(t, nil)
	dry := requestFor(t, offloadedPodOf("a", "500m"))
	dry.DryRun = new(true)
	for _, req := range []admission.Request{dry, requestFor(t, offloadedPodOf("b", "500m"))} {
		if !j.admitPod(t.Context(), req).Allowed {
			t.Fatal("a dry run takes nothing")
		}
	}
	if j.admitPod(t.Context(), requestFor(t, offloadedPodOf("c", "1m"))).Allowed {
		t.Error("a pod that was just admitted takes what it requests")
	}
	if got := testutil.ToFloat64(j.refused.WithLabelValues("rome")); got != 1 {
		t.Errorf("%v refusals are counted", got)
	}
}

func forA100(i *agentv1alpha1.ProviderInstruction) {
	i.Spec.NodeSelector = map[string]brokerv1alpha1.LabelValue{"gpu": "a100"}
}

func tolerating(key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists})
	}
}

// Paris offers two kinds of tainted nodes, and the placement was granted one.
func TestOffloadedPodsGetTheTolerationsOfTheirPlacement(t *testing.T) {
	j := newPodJudge(t, func(i *agentv1alpha1.ProviderInstruction) {
		i.Spec.Tolerations = []brokerv1alpha1.Toleration{{Key: "dedicated", Operator: "Exists"}}
	})
	j.Nodes = func() (enforcement.LentNodes, bool) {
		return enforcement.LentNodes{Selector: labels.Everything(), Taints: []brokerv1alpha1.Taint{
			{Key: "dedicated", Value: "gpu", Effect: "NoSchedule"}, {Key: "spot", Effect: "NoExecute"},
		}}, true
	}
	pod := offloadedPodOf("a", "1m", tolerating("spot"))
	if got := j.admitPod(t.Context(), requestFor(t, pod)); got.Allowed || !strings.Contains(got.Result.Message, "toleration of spot") {
		t.Errorf("a toleration that was not granted: %+v", got.Result)
	}
	nodes, err := j.nodesFor(t.Context(), pod)
	runtest.Check(t, err)
	nodes.Confine(&pod.Spec)
	if got := pod.Spec.Tolerations; len(got) != 1 || got[0].Key != "dedicated" || got[0].Value != "gpu" {
		t.Errorf("tolerations %+v, want dedicated=gpu alone", got)
	}
	if got := j.admitPod(t.Context(), requestFor(t, pod)); !got.Allowed {
		t.Errorf("the confined pod is refused: %s", got.Result.Message)
	}
}

// allowing adds a term of node affinity to a pod.
func allowing(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{}}}
		}
		required := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}},
		}})
	}
}

func TestOffloadedPodsAreBoundToTheNodesOfTheirPlacement(t *testing.T) {
	j := newPodJudge(t, forA100)
	for name, pod := range map[string]*corev1.Pod{
		"no affinity of its own": offloadedPodOf("a", "1m"),
		"other nodes asked for":  offloadedPodOf("a", "1m", allowing("gpu", "a100"), allowing("gpu", "t4")),
	} {
		t.Run(name, func(t *testing.T) {
			if got := j.confinePod(t.Context(), requestFor(t, pod)); !got.Allowed || len(got.Patches) == 0 {
				t.Fatalf("%+v", got)
			}
			nodes, err := j.nodesFor(t.Context(), pod)
			runtest.Check(t, err)
			bound := pod.DeepCopy()
			nodes.Confine(&bound.Spec)
			if !enforcement.IsBound(&bound.Spec, map[string]string{"gpu": "a100"}) {
				t.Errorf("affinity %+v", bound.Spec.Affinity)
			}
			if got := j.admitPod(t.Context(), requestFor(t, bound)); !got.Allowed {
				t.Errorf("the bound pod is refused: %s", got.Result.Message)
			}
			if again := j.confinePod(t.Context(), requestFor(t, bound)); len(again.Patches) != 0 {
				t.Errorf("asked again it changes what it has changed: %+v", again.Patches)
			}
		})
	}
}

func TestOffloadedPodsAreConfinedToLentNodes(t *testing.T) {
	j := newPodJudge(t, nil)
	pod := offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"zone": "a"} })
	req := requestFor(t, pod)
	got := j.confinePod(t.Context(), req)
	if !got.Allowed || len(got.Patches) == 0 {
		t.Fatalf("%+v", got)
	}
	if len(got.Patches) != 1 || got.Patches[0].Path != "/spec/affinity" {
		t.Fatalf("patches %+v", got.Patches)
	}
	text, err := json.Marshal(got.Patches[0].Value)
	runtest.Check(t, err)
	confined := pod.DeepCopy()
	runtest.Check(t, json.Unmarshal(text, &confined.Spec.Affinity))
	terms := confined.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || len(terms[0].MatchExpressions) != 3 {
		t.Errorf("confined to %+v", terms)
	}
	if again := j.confinePod(t.Context(), requestFor(t, confined)); !again.Allowed || len(again.Patches) != 0 {
		t.Errorf("asked again it changes what it has changed: %+v", again.Patches)
	}
	j.Nodes = func() (enforcement.LentNodes, bool) { return enforcement.LentNodes{}, false }
	if j.confinePod(t.Context(), req).Allowed {
		t.Error("a pod waits until the nodes are known")
	}
	if own := j.confinePod(t.Context(), requestFor(t, offloadedPodOf("a", "1m", func(p *corev1.Pod) { p.OwnerReferences = nil }))); !own.Allowed || len(own.Patches) != 0 {
		t.Error("a pod of an administrator runs where it likes")
	}
}
