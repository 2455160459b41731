package liqo

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqotech/liqo/pkg/consts"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
)

// NamespaceQuotaName is the ResourceQuota that the agent keeps in a namespace that a
// consumer has offloaded here.
const NamespaceQuotaName = "liqo-resource-broker"

// ConsumerOf returns the cluster for which Liqo made the namespace, "" for any other one.
func ConsumerOf(ns client.Object) string {
	if ns.GetAnnotations()[consts.RemoteNamespaceManagedByAnnotationKey] == "" {
		return ""
	}
	return PeerOf(ns.GetLabels())
}

// NamespaceQuotas is what the pods of each consumer may request in any one namespace: as
// much as is kept for its placements together. Liqo's own Quota bounds what they may
// request in all of them.
func NamespaceQuotas(instructions []agentv1alpha1.ProviderInstruction) map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for i := range instructions {
		inst := &instructions[i]
		if !inst.Status.Enforced {
			continue
		}
		consumer := inst.Spec.RequesterClusterID
		if out[consumer] == nil {
			out[consumer] = corev1.ResourceList{}
		}
		for name, amount := range inst.Kept() {
			key := requestsOf(name)
			sum := out[consumer][key]
			sum.Add(amount)
			out[consumer][key] = sum
		}
	}
	return out
}

// requestsOf is how a ResourceQuota names what pods request of a resource.
func requestsOf(name corev1.ResourceName) corev1.ResourceName {
	if name == corev1.ResourcePods {
		return name
	}
	return corev1.DefaultResourceRequestsPrefix + name
}

// KeepQuotas writes the quotas of all namespaces that consumers have offloaded here, and
// takes away those of consumers for whom nothing is kept any more. A ResourceQuota of that
// name that somebody else made is left alone.
func (p *Peering) KeepQuotas(ctx context.Context) error {
	var instructions agentv1alpha1.ProviderInstructionList
	if err := p.opts.Client.List(ctx, &instructions, client.InNamespace(p.opts.InstructionNamespace)); err != nil {
		return err
	}
	var namespaces corev1.NamespaceList
	if err := p.opts.Client.List(ctx, &namespaces, client.HasLabels{consts.RemoteClusterID}); err != nil {
		return err
	}
	quotas := NamespaceQuotas(instructions.Items)
	for i := range namespaces.Items {
		ns := &namespaces.Items[i]
		consumer := ConsumerOf(ns)
		if consumer == "" || ns.DeletionTimestamp != nil {
			continue
		}
		if err := p.keepQuota(ctx, ns.Name, NamespaceQuotaName, quotas[consumer]); err != nil {
			return err
		}
	}
	return nil
}

// keepQuota creates, updates or, with nothing in hard, deletes a ResourceQuota of the agent.
func (p *Peering) keepQuota(ctx context.Context, namespace, name string, hard corev1.ResourceList) error {
	quota := &corev1.ResourceQuota{}
	// The agent keeps no cache of quotas.
	found, err := get(ctx, p.opts.Reader, namespace, name, quota)
	if err != nil {
		return err
	}
	switch {
	case !found && len(hard) == 0, found && !Ours(quota):
		return nil
	case !found:
		return p.create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: name,
				Labels: map[string]string{agentv1alpha1.ManagedByLabel: agentv1alpha1.ManagedByValue},
			},
			Spec: corev1.ResourceQuotaSpec{Hard: hard},
		})
	case len(hard) == 0:
		return p.remove(ctx, quota)
	case equality.Semantic.DeepEqual(quota.Spec.Hard, hard):
		return nil
	}
	quota.Spec.Hard = hard
	return p.opts.Client.Update(ctx, quota)
}
