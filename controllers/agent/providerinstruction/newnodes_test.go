package providerinstruction

import (
	"context"
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/admission"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/enforcement"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// podCache reads pods from a client.
type podCache struct {
	cache.Cache
	reader client.Reader
}

func (c podCache) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return c.reader.List(ctx, list, opts...)
}

// A placement for which nodes are created has a placeholder as large as each of them. It is decided about
// again once all of these have nodes that count. When it is accepted, placeholders for its own amounts
// take over.
func TestPlaceholdersMakeTheAutoscalerCreateNodes(t *testing.T) {
	b := newBench(t)
	b.inst.Status.Enforced, b.inst.Status.NewNodes = false, []agentv1alpha1.NewNodes{{Group: "gpu", Count: 2}}
	b.check(b.client.Status().Update(t.Context(), b.inst))
	whole := quantity.Amounts{"cpu": 4000, "memory": 4 << 30, "nvidia.com/gpu": 2, "pods": 110}
	b.opts.Groups = func() []offering.NodeGroup {
		return []offering.NodeGroup{{Name: "gpu", Each: whole, Labels: map[string]string{"pool": "gpu"}, Taints: []brokerv1alpha1.Taint{{Key: "nvidia.com/gpu", Effect: "NoSchedule"}}}}
	}
	counted := map[string]quantity.Amounts{}
	b.opts.Room = func([]string) map[string]quantity.Amounts { return counted }
	b.opts.Pods, b.Reconciler.opts.Placeholders = podCache{reader: b.client}, b.opts
	decision := admission.Decision{NewNodes: []agentv1alpha1.NewNodes{{Group: "gpu", Count: 1}}}
	b.Reconciler.opts.Admit = func(context.Context, *agentv1alpha1.ProviderInstruction) (admission.Decision, error) {
		return decision, nil
	}
	reconcile := func(when string, want int32) {
		t.Helper()
		_, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.inst)})
		b.check(err)
		b.check(b.client.Get(t.Context(), client.ObjectKeyFromObject(b.inst), b.inst))
		if n := b.inst.Status.NewNodes; len(n) != 1 || n[0].Count != want {
			t.Errorf("%s: new nodes %+v, want %d", when, n, want)
		}
	}

	pods := b.look()
	if len(pods) != 2 {
		t.Fatalf("%d placeholders, want one for each new node", len(pods))
	}
	for i := range pods {
		spec := &pods[i].Spec
		if !enforcement.IsBound(spec, map[string]string{"pool": "gpu"}) || spec.Containers[0].Resources.Requests.Cpu().Value() != 4 || len(spec.Tolerations) != 1 {
			t.Errorf("placeholder %+v", spec)
		}
	}
	reconcile("without nodes", 2)
	b.bind(pods)
	reconcile("while the nodes do not count", 2)
	counted["n1"] = whole.Times(2)
	reconcile("when they do not suffice", 3)
	if pods = b.look(); len(pods) != 3 {
		t.Errorf("%d placeholders, want one more", len(pods))
	}
	decision = admission.Decision{Admitted: true}
	_, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.inst)})
	b.check(err)
	b.check(b.client.Get(t.Context(), client.ObjectKeyFromObject(b.inst), b.inst))
	if !b.inst.Status.Enforced || b.inst.Status.NewNodes != nil {
		t.Errorf("accepted: %+v", b.inst.Status)
	}
	b.look()
	pods = b.look()
	if len(pods) != 2 || pods[0].Spec.Containers[0].Resources.Requests.Cpu().Value() != 1 || pods[0].Status.NominatedNodeName != "n1" {
		t.Errorf("%d placeholders, the first %+v: want one for each core, nominated for the new node", len(pods), pods[0])
	}
}
