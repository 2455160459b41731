package configuration

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/offering"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// Limits of groups of nodes. The schema of the Advertisement limits the number of groups too, and the
// broker refuses a longer time.
const (
	maxGroups      = 16
	maxNodes       = 1000
	maxGroupLabels = 4
	maxGroupName   = 63
	maxReadyWithin = time.Hour
)

// defaultPods is how many pods fit on a node unless its kubelet is configured otherwise.
const defaultPods = 110

// readGroups reads the groups of nodes that the cluster creates on demand. nodes and lent
// are the nodes that are lent, and the taints with which nodes are lent.
func (r *reader) readGroups(in []nodeGroup, nodes labels.Selector, lent []brokerv1alpha1.Taint) (out []offering.NodeGroup) {
	r.noteError(requirements.CheckCount("offer.elastic", len(in), maxGroups))
	for i := range in {
		g, field := &in[i], fmt.Sprintf("offer.elastic[%d]", i)
		group := offering.NodeGroup{Name: g.Name, Nodes: g.Nodes, Each: quantity.Amounts{}, Labels: g.Labels}
		if g.Name == "" || len(g.Name) > maxGroupName || slices.ContainsFunc(out, func(o offering.NodeGroup) bool { return o.Name == g.Name }) {
			r.refuseField("%s.name: %.80q is empty, too long or used twice: give each group a name of its own", field, g.Name)
		}
		if g.Nodes < 1 || g.Nodes > maxNodes {
			r.refuseField("%s.nodes: %d nodes: give the most nodes that the group may have, from 1 to %d", field, g.Nodes, maxNodes)
		}
		for name, amount := range g.Each {
			r.readAmount(field+".each", corev1.ResourceName(name), amount, group.Each)
		}
		if group.Each[corev1.ResourceCPU] <= 0 || group.Each[corev1.ResourceMemory] <= 0 {
			r.refuseField("%s.each: give at least cpu and memory: what pods can request on a new node, after the pods of DaemonSets", field)
		}
		if _, named := group.Each[corev1.ResourcePods]; !named {
			group.Each[corev1.ResourcePods] = defaultPods
		}
		if len(g.Labels) == 0 {
			r.refuseField("%s.labels: give labels that all nodes of the group have and no other node, so that existing nodes are not offered twice", field)
		}
		r.noteError(requirements.CheckLabels(field+".labels", g.Labels, maxGroupLabels))
		if !nodes.Matches(labels.Set(g.Labels)) {
			r.refuseField("%s.labels: nodes with these labels are not lent: add what offer.nodeSelector asks for", field)
		}
		for _, o := range out {
			if !excludeEachOther(o.Labels, g.Labels) {
				r.refuseField("%s.labels: a node may be in group %q as well, and would be offered twice: give both groups a label with different values", field, o.Name)
			}
		}
		group.Taints = r.readTaints(field+".taints", g.Taints)
		for _, taint := range group.Taints {
			if !slices.Contains(lent, taint) && !quantity.IsExtended(corev1.ResourceName(taint.Key)) {
				r.refuseField("%s.taints: nodes with taint %s are not lent: list it in offer.taints as well", field, taint.Key)
			}
		}
		within, err := time.ParseDuration(g.ReadyWithin)
		if err != nil || within < time.Second || within > maxReadyWithin {
			r.refuseField("%s.readyWithin: %.40q: give how long new nodes take until they are Ready, from 1s to %s, for example 8m", field, g.ReadyWithin, maxReadyWithin)
		}
		group.ReadyWithin = within
		out = append(out, group)
	}
	return out
}

// excludeEachOther reports whether no node can have both sets of labels.
func excludeEachOther(a, b map[string]string) bool {
	for key, value := range a {
		if other, ok := b[key]; ok && other != value {
			return true
		}
	}
	return false
}
