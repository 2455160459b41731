package resourcerequest

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/bounds"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

// make creates objects in the namespace of the request.
func (b *bench) make(objects ...client.Object) {
	b.Helper()
	for _, obj := range objects {
		obj.SetNamespace("team")
		runtest.Check(b, b.client.Create(b.Context(), obj))
	}
}

func limit(cpu string) *corev1.LimitRange {
	return &corev1.LimitRange{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{{
			Type: bounds.LimitType, Max: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)},
		}}},
	}
}

func quota(cpu string) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "team"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{bounds.QuotaKey(corev1.ResourceCPU): resource.MustParse(cpu)}},
	}
}

// No webhook checks these requests; the controller does not submit those outside the bounds.
func TestRequestBeyondBoundsIsNotSent(t *testing.T) {
	cases := map[string]struct {
		bound client.Object
		want  string
	}{
		"of each request": {limit("499m"), `spec.cpu: Invalid value: "500m": is more than one request of this namespace may ask for: LimitRange "team" allows at most 499m`},
		"of all of them":  {quota("499m"), `ResourceQuota "team" allows resourcerequests.liqo.io/cpu=499m`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.make(tc.bound)
			b.after(0)
			b.after(0)
			b.expectState(agentv1alpha1.RequestFailed, agentv1alpha1.ReasonOutsideBounds)
			if got := b.request().Status; !strings.Contains(got.Message, tc.want) || got.Asked {
				t.Errorf("asked %t, %q, want %q", got.Asked, got.Message, tc.want)
			}
			if note := <-b.events.Events; !strings.Contains(note, agentv1alpha1.ReasonOutsideBounds) {
				t.Errorf("event %q", note)
			}
			if asked := b.broker.Requests(); len(asked) > 0 {
				t.Errorf("the broker was asked for %v", asked)
			}
			b.delete()
			b.after(0)
			b.expectGone()
		})
	}
}

func TestLoweredBoundsKeepRequests(t *testing.T) {
	b := newBench(t)
	b.make(limit("500m"), quota("500m"))
	b.after(0)
	for _, obj := range []client.Object{limit("1m"), quota("1m")} {
		obj.SetNamespace("team")
		runtest.Check(t, b.client.Delete(b.Context(), obj))
	}
	b.make(limit("1m"), quota("1m"))
	b.after(0)
	b.expectState(agentv1alpha1.RequestReserved, agentv1alpha1.ReasonPeering)
}

func TestOneOfRequestsThatFitOnlyAloneIsSent(t *testing.T) {
	b := newBench(t)
	b.make(quota("900m"))
	names := []string{"mine", "second", "third", "fourth"}
	for _, name := range names[1:] {
		rr := &agentv1alpha1.ResourceRequest{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: b.request().Spec}
		b.make(rr)
	}
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			_, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "team", Name: name}})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	var list agentv1alpha1.ResourceRequestList
	runtest.Check(t, b.client.List(t.Context(), &list))
	held, failed := 0, 0
	for i := range list.Items {
		switch list.Items[i].Status.Phase {
		case agentv1alpha1.RequestReserved:
			held++
		case agentv1alpha1.RequestFailed:
			failed++
		}
	}
	if held != 1 || failed != 3 {
		t.Errorf("%d are held and %d failed, want 1 and 3", held, failed)
	}
}
