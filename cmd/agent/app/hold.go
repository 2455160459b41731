package app

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
)

// placeholderSettings returns the settings for placeholder pods, or nil if the agent has no
// namespace for them or does not peer. The settings are needed even with --hold=Ledger, to
// delete the placeholders that were created while the agent ran with --hold=Placeholder.
func (a *agent) placeholderSettings() *providerinstruction.Placeholders {
	if a.podNamespace == "" || a.peering == nil {
		return nil
	}
	return &providerinstruction.Placeholders{
		Namespace: a.podNamespace, Image: a.placeholderImage, PriorityClass: a.placeholderClass,
		Pods: a.offloaded.Cache, Room: a.watcher.Room, Confine: a.confinePlaceholder,
		Groups: func() []offering.NodeGroup { return a.settings.OfferRules().Groups },
	}
}

// confinePlaceholder restricts a placeholder pod to the nodes that the pods of its placement may
// use. On another node it would occupy room that those pods cannot use.
func (a *agent) confinePlaceholder(pod *corev1.PodSpec, placement *agentv1alpha1.ProviderInstructionSpec) {
	nodes, known := a.lentNodes()
	if !known {
		nodes.Selector = labels.Everything()
	}
	nodes = nodes.For(placement)
	nodes.Confine(pod)
}
