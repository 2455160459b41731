package app

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/controllers/agent/providerinstruction"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// placeholders of an agent that holds by the ledger are what another configuration left
// behind, which is deleted. It is nil where there is no namespace for them, or nobody peers.
func (a *agent) placeholders() *providerinstruction.Placeholders {
	if a.podNamespace == "" || a.peering == nil {
		return nil
	}
	return &providerinstruction.Placeholders{
		Namespace: a.podNamespace, Image: a.placeholderImage, PriorityClass: a.placeholderClass,
		Pods: a.offloaded.pods, Room: a.watcher.Room, Nodes: a.placeholderNodes,
	}
}

// placeholderNodes are those that pods of consumers may run on: elsewhere a placeholder
// would keep nothing for them.
func (a *agent) placeholderNodes() *corev1.NodeSelector {
	nodes, known := a.lentNodes()
	if !known {
		return object.OwnNodes()
	}
	return nodes.NodeSelector()
}
