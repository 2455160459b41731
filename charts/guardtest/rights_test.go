package guardtest

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/internal/playground/controlplane/controlplanetest"
)

// The policies refuse more, and not less, when what the agent keeps for them is edited, when the agent's namespace is
// deleted, and after they are installed again.
func TestPoliciesHoldWithoutTheAgent(t *testing.T) {
	c := startCluster(t)
	s := c.openSite("held", "")
	note := s.object("v1", "ConfigMap", "note")
	s.check(s.peer.Create(t.Context(), note.DeepCopy()))
	s.create(roleBindingOfResidents(s.namespace))
	s.giveRight("Delete")
	s.awaitRefusal("has no live reservation", note)
	if err := s.peer.Delete(t.Context(), note.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("an ended identity may delete what it has here: %v", err)
	}

	s.giveRight("")
	s.awaitRefusal("has no live reservation", note)
	for name, err := range s.writeWithoutRight(note) {
		if refusedBy(err) == "" {
			t.Errorf("without the annotations no policy refuses %s: %v", name, err)
		}
	}
	s.wantWorking("without the annotations")

	s.giveRight("Write")
	s.awaitAdmission(note)
	s.reinstallPolicies()
	s.giveRight("Delete")
	s.awaitRefusal("has no live reservation", note)

	s.giveRight("Write")
	s.awaitAdmission(note)
	s.check(s.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.name}}))
	// There is no controller that would delete a namespace.
	own := &corev1.Namespace{}
	s.check(s.Get(t.Context(), client.ObjectKey{Name: s.name}, own))
	own.Spec.Finalizers = nil
	s.check(s.SubResource("finalize").Update(t.Context(), own))
	s.awaitRefusal("no params found", note)
	s.wantWorking("without the namespace")
}

// writeWithoutRight tries writes that no right allows.
func (s *site) writeWithoutRight(note *unstructured.Unstructured) map[string]error {
	s.Helper()
	port := s.object("v1", "Service", "port")
	port.Object["spec"] = map[string]any{"type": "NodePort", "ports": []any{map[string]any{"port": int64(80)}}}
	create := func(by client.Client, obj client.Object) error { return by.Create(s.Context(), obj, client.DryRunAll) }
	return map[string]error{
		"a privileged pod":                   create(s.peer, s.shadowPod("canary", inContainer(map[string]any{"privileged": true}, "securityContext"))),
		"a port of every node":               create(s.peer, port),
		"an identity of another name":        create(s.as("by-hand-0123456789ab", consumer), note.DeepCopy()),
		"a service account of the namespace": create(s.as("system:serviceaccount:"+s.namespace+":default"), note.DeepCopy()),
	}
}

// wantWorking checks that this cluster's own components can still write.
func (s *site) wantWorking(when string) {
	s.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "own-" + strings.ReplaceAll(when, " ", "-")}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "a", Image: "a"}}, AutomountServiceAccountToken: new(bool),
	}}
	for step, err := range map[string]error{
		"create a pod":     s.Create(s.Context(), pod),
		"report its state": s.Status().Update(s.Context(), pod),
		"delete it":        s.Delete(s.Context(), pod, client.GracePeriodSeconds(0)),
	} {
		if err != nil {
			s.Errorf("%s, this cluster cannot %s: %v", when, step, err)
		}
	}
}

func (s *site) awaitAdmission(obj *unstructured.Unstructured) {
	s.Helper()
	obj = obj.DeepCopy()
	obj.SetName("admitted")
	s.check(wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, hangLimit, true, func(ctx context.Context) (bool, error) {
		return s.peer.Create(ctx, obj.DeepCopy(), client.DryRunAll) == nil, nil
	}))
}

// reinstallPolicies deletes the policies and creates them again. API servers stop watching parameters of other kinds
// than Namespace while no policy has them.
func (s *site) reinstallPolicies() {
	s.Helper()
	for _, obj := range s.policies {
		s.check(s.Delete(s.Context(), obj.DeepCopy()))
	}
	open := s.object("v1", "Event", "open")
	s.check(unstructured.SetNestedMap(open.Object, map[string]any{"kind": "Pod", "name": "a", "namespace": s.namespace}, "involvedObject"))
	s.check(wait.PollUntilContextTimeout(s.Context(), 100*time.Millisecond, hangLimit, true, func(ctx context.Context) (bool, error) {
		return s.peer.Create(ctx, open.DeepCopy(), client.DryRunAll) == nil, nil
	}))
	for _, obj := range s.policies {
		obj.SetResourceVersion("")
		obj.SetUID("")
		s.create(obj)
	}
	controlplanetest.AwaitPolicies(s.T, s.Client)
}
