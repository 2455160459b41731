package guard

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// replicaOf returns a slice that a consumer's Liqo has replicated to this cluster, with a certificate request.
func replicaOf(pairs ...string) *authv1beta1.ResourceSlice {
	s := slice(amounts(pairs...))
	s.Labels = map[string]string{object.ReplicatedLabel: "true", object.OriginLabel: "rome"}
	s.Spec.CSR = []byte("certificate request")
	return s
}

func TestIncompleteSliceIsSentAgain(t *testing.T) {
	tests := map[string]struct {
		change func(*authv1beta1.ResourceSlice, *agentv1alpha1.ProviderInstruction)
		want   bool
	}{
		"a complete slice":              {change: func(*authv1beta1.ResourceSlice, *agentv1alpha1.ProviderInstruction) {}},
		"without a certificate request": {change: func(s *authv1beta1.ResourceSlice, _ *agentv1alpha1.ProviderInstruction) { s.Spec.CSR = nil }, want: true},
		"less than is kept": {change: func(s *authv1beta1.ResourceSlice, _ *agentv1alpha1.ProviderInstruction) {
			s.Spec.Resources = amounts("cpu", "1")
		}, want: true},
		"more than is kept": {change: func(s *authv1beta1.ResourceSlice, _ *agentv1alpha1.ProviderInstruction) {
			s.Spec.Resources = amounts("cpu", "3")
		}, want: true},
		"zero of a resource that is not kept": {change: func(s *authv1beta1.ResourceSlice, _ *agentv1alpha1.ProviderInstruction) {
			s.Spec.Resources = amounts("cpu", "2", "nvidia.com/gpu", "0")
		}},
		"of an ended placement": {change: func(s *authv1beta1.ResourceSlice, i *agentv1alpha1.ProviderInstruction) {
			s.Spec.CSR, i.Spec.Release = nil, true
		}},
		"of a placement that is not provided": {change: func(s *authv1beta1.ResourceSlice, i *agentv1alpha1.ProviderInstruction) {
			s.Spec.CSR, i.Status.Enforced = nil, false
		}},
		"of this cluster itself": {change: func(s *authv1beta1.ResourceSlice, _ *agentv1alpha1.ProviderInstruction) {
			s.Spec.CSR, s.Labels = nil, nil
		}},
		"of a class that the agent leaves alone": {change: func(s *authv1beta1.ResourceSlice, _ *agentv1alpha1.ProviderInstruction) {
			s.Spec.CSR, s.Spec.Class = nil, "default"
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s, inst := replicaOf("cpu", "2"), instruction(amounts("cpu", "2"))
			inst.Namespace = "default"
			test.change(s, inst)
			g, now := newGuard(t, s, inst)
			_, err := g.ResendSlice(t.Context(), client.ObjectKeyFromObject(s))
			runtest.Check(t, err)
			now.SetTime(now.Now().Add(resendPause))
			if _, err := g.ResendSlice(t.Context(), client.ObjectKeyFromObject(s)); err != nil {
				t.Fatal(err)
			}
			if got := resentAt(t, g, s) != ""; got != test.want {
				t.Errorf("sent again: %t, want %t", got, test.want)
			}
		})
	}
}

// A consumer that stays away, or leaves its slice incomplete, causes few writes.
func TestPauseBeforeASliceIsSentAgainDoubles(t *testing.T) {
	s, inst := replicaOf("cpu", "2"), instruction(amounts("cpu", "2"))
	inst.Namespace, s.Spec.CSR = "default", nil
	g, now := newGuard(t, s, inst)
	var pauses []time.Duration
	for range 9 {
		again, err := g.ResendSlice(t.Context(), client.ObjectKeyFromObject(s))
		runtest.Check(t, err)
		pauses = append(pauses, again)
		now.SetTime(now.Now().Add(again - 1))
		early, err := g.ResendSlice(t.Context(), client.ObjectKeyFromObject(s))
		if err != nil || early != 1 {
			t.Errorf("too early: %v, %v, want to be called again after 1 ns", early, err)
		}
		now.SetTime(now.Now().Add(1))
	}
	want := []time.Duration{5, 10, 20, 40, 80, 160, 300, 300, 300}
	for i := range want {
		want[i] *= time.Second
	}
	if diff := cmp.Diff(want, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
}

func newGuard(t *testing.T, objects ...client.Object) (*Guard, *clocktesting.FakePassiveClock) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{agentv1alpha1.AddToScheme, object.AddToScheme} {
		runtest.Check(t, add(scheme))
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
	now := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	return New(Options{InstructionNamespace: "default", Client: c, Reader: c, Clock: now}), now
}

func resentAt(t *testing.T, g *Guard, s *authv1beta1.ResourceSlice) string {
	t.Helper()
	got := &authv1beta1.ResourceSlice{}
	runtest.Check(t, g.opts.Client.Get(t.Context(), client.ObjectKeyFromObject(s), got))
	return got.Annotations[resendAnnotation]
}
