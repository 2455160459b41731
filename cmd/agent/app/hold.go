package app

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
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
		Pods: a.offloaded.pods, Room: a.watcher.Room, Nodes: a.placeholderNodes,
	}
}

// placeholderNodes selects the nodes with the given labels that consumers' pods may run on.
// Elsewhere placeholder pods would be useless.
func (a *agent) placeholderNodes(labels map[string]string) *corev1.NodeSelector {
	nodes, known := a.lentNodes()
	if !known {
		return object.OwnNodes()
	}
	nodes.Labels = labels
	return nodes.NodeSelector()
}
