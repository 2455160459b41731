package app

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
)

// placeholderSettings returns how to manage placeholder pods. With --hold=Ledger the agent only
// deletes those that an earlier configuration created. It returns nil without a namespace for
// them, and without peering.
func (a *agent) placeholderSettings() *providerinstruction.Placeholders {
	if a.podNamespace == "" || a.peering == nil {
		return nil
	}
	return &providerinstruction.Placeholders{
		Namespace: a.podNamespace, Image: a.placeholderImage, PriorityClass: a.placeholderClass,
		Pods: a.offloaded.pods, Room: a.watcher.Room, Confine: a.confinePlaceholder,
	}
}

// confinePlaceholder restricts a placeholder to the nodes that the pods of its placement may run on.
// Elsewhere it would be useless.
func (a *agent) confinePlaceholder(pod *corev1.PodSpec, placement *agentv1alpha1.ProviderInstructionSpec) {
	nodes, known := a.lentNodes()
	if !known {
		nodes.Selector = labels.Everything()
	}
	nodes = nodes.For(placement)
	nodes.Confine(pod)
}
