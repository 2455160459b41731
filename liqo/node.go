package liqo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

const (
	// typeLabel is the label by which controllers, for example those of clouds, recognize nodes
	// without a machine.
	typeLabel, virtualKubelet = "type", "virtual-kubelet"
	// keepAnnotation prevents cluster-autoscaler from removing a node that looks unused.
	keepAnnotation = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
)

// agentLabels returns the labels that the agent sets on a placement's virtual node. Some of them
// name the request, so that its pods can select the node. The others name the namespaces whose pods
// may use the node: the request's own namespace, and those that the request lists. A Reservation
// that was created in the broker's cluster has no request. If such a Reservation lists no
// namespaces, pods of all namespaces may use the node.
func agentLabels(inst *agentv1alpha1.ReservationInstruction) map[string]string {
	labels := map[string]string{typeLabel: virtualKubelet}
	for _, namespace := range inst.Spec.Namespaces {
		labels[agentv1alpha1.NamespaceLabelPrefix+namespace] = "true"
	}
	switch ref := inst.Spec.RequestRef; {
	case ref != nil:
		maps.Copy(labels, agentv1alpha1.RequestNodeLabels(ref.Namespace, ref.Name))
		labels[agentv1alpha1.NamespaceLabelPrefix+ref.Namespace] = "true"
	case len(inst.Spec.Namespaces) == 0:
		labels[agentv1alpha1.SharedLabel] = "true"
	}
	return labels
}

func labelsOfAgent(labels map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range labels {
		switch key {
		case typeLabel, agentv1alpha1.SharedLabel, agentv1alpha1.RequestLabel, agentv1alpha1.RequestNamespaceLabel:
			out[key] = value
		default:
			if strings.HasPrefix(key, agentv1alpha1.NamespaceLabelPrefix) {
				out[key] = value
			}
		}
	}
	return out
}

func isOpened(node *corev1.Node, inst *agentv1alpha1.ReservationInstruction) bool {
	return node.Annotations[keepAnnotation] == "true" && maps.Equal(labelsOfAgent(node.Labels), agentLabels(inst))
}

// openNode sets keepAnnotation and the labels of agentLabels on the virtual node, and removes outdated
// labels. Before the node has these labels, no pod that the webhook has admitted is scheduled to it,
// because such pods select these labels.
func (p consumerSide) openNode(ctx context.Context, s *consumerScene) error {
	update := s.node.DeepCopy()
	for key := range labelsOfAgent(update.Labels) {
		delete(update.Labels, key)
	}
	if update.Labels == nil {
		update.Labels = map[string]string{}
	}
	maps.Copy(update.Labels, agentLabels(s.inst))
	metav1.SetMetaDataAnnotation(&update.ObjectMeta, keepAnnotation, "true")
	return client.IgnoreNotFound(p.opts.Client.Patch(ctx, update, client.MergeFrom(s.node)))
}

// closedBefore is how long a node must have been closed before its pods are listed, because a scheduler with an
// outdated cache may still bind a pod to it. Up to one second of it is lost, because the taint stores the time in whole
// seconds.
const closedBefore = 4 * time.Second

// CloseNode keeps new pods off the virtual node of a placement, and reports whether the node has no pods. It reads the
// pods from the API server, some time after the node was closed. Before that time, empty is false, and again is the
// delay after which to call CloseNode again. Without a node, empty is false and again is 0.
func (p *Peering) CloseNode(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (empty bool, again time.Duration, err error) {
	node, err := p.nodeOf(ctx, inst)
	if node == nil || err != nil {
		return false, 0, err
	}
	at := slices.IndexFunc(node.Spec.Taints, isVacating)
	if at < 0 {
		update := node.DeepCopy()
		update.Spec.Taints = append(update.Spec.Taints, corev1.Taint{
			Key: agentv1alpha1.VacatingTaint, Value: strconv.FormatInt(p.opts.Clock.Now().Unix(), 10), Effect: corev1.TaintEffectNoSchedule,
		})
		return false, closedBefore, client.IgnoreNotFound(p.opts.Client.Patch(ctx, update, patch.IfUnchanged(node)))
	}
	since, err := strconv.ParseInt(node.Spec.Taints[at].Value, 10, 64)
	if left := closedBefore - p.opts.Clock.Now().Sub(time.Unix(since, 0)); err == nil && left > 0 {
		return false, min(left, closedBefore), nil
	}
	left, err := p.drainer.CountPods(ctx, node)
	return left == 0, 0, err
}

// ReopenNode undoes what CloseNode changed.
func (p *Peering) ReopenNode(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) error {
	node, err := p.nodeOf(ctx, inst)
	if node == nil || err != nil {
		return err
	}
	if !slices.ContainsFunc(node.Spec.Taints, isVacating) {
		return nil
	}
	update := node.DeepCopy()
	update.Spec.Taints = slices.DeleteFunc(update.Spec.Taints, isVacating)
	return client.IgnoreNotFound(p.opts.Client.Patch(ctx, update, patch.IfUnchanged(node)))
}

func isVacating(t corev1.Taint) bool { return t.Key == agentv1alpha1.VacatingTaint }

func (p *Peering) nodeOf(ctx context.Context, inst *agentv1alpha1.ReservationInstruction) (*corev1.Node, error) {
	node := &corev1.Node{}
	found, err := object.Get(ctx, p.opts.Client, "", inst.PlacementName(), node)
	if err != nil {
		return nil, fmt.Errorf("virtual node of placement %q: %w", inst.Name, err)
	}
	if !found {
		return nil, nil
	}
	return node, nil
}
