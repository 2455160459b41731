package liqo

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/patch"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

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
