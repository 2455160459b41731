package clusteradvertisement

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxNamed is how many other clusters a message names at most.
const maxNamed = 5

// conductConditions returns the conditions Reliable and WithinGrants. It omits a condition that has never been false,
// so most clusters have neither.
func conductConditions(v *broker.ClusterView, obj *brokerv1alpha1.ClusterAdvertisement) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range []metav1.Condition{reliableCondition(v), withinGrantsCondition(v)} {
		if c.Status == metav1.ConditionFalse || meta.FindStatusCondition(obj.Status.Conditions, c.Type) != nil {
			out = append(out, c)
		}
	}
	return out
}

func reliableCondition(v *broker.ClusterView) metav1.Condition {
	c := goodCondition(brokerv1alpha1.ConditionReliable, "no failures block new placements")
	const remedy = ": running workloads are not affected; status.reliability counts the failures, check the cluster's agent and Liqo; " +
		"once they work, a new value of annotation " + brokerv1alpha1.LiftPausesAnnotation + " lifts the pauses at once"
	switch {
	case v.Standing == nil, v.Standing.Paused.Why == "" && len(v.Standing.PausedFor) == 0:
		return c // a cordon alone is no failure
	case v.Standing.Paused.Why != "":
		c.Reason, c.Message = brokerv1alpha1.ReasonPaused, v.Standing.Paused.Why+listFailures(v)+remedy
	default:
		texts := map[string]string{}
		for requester, p := range v.Standing.PausedFor {
			texts[requester] = p.Why
		}
		c.Reason, c.Message = brokerv1alpha1.ReasonPausedForSome, "for some requesters: "+joinFirst(texts)+remedy
	}
	c.Status, c.Message = metav1.ConditionFalse, message.Clip(c.Message, message.MaxNote)
	return c
}

func withinGrantsCondition(v *broker.ClusterView) metav1.Condition {
	c := goodCondition(brokerv1alpha1.ConditionWithinGrants, "no provider rejects the cluster for exceeding a grant")
	if v.Excess == nil {
		return c
	}
	text := v.Excess.All
	if text == "" {
		text = joinFirst(v.Excess.By)
	}
	c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonExceededGrant
	c.Message = message.Clip(text+"; existing grants stay. Run no more than is granted, or request more: the cluster's Reservations show the excess. "+
		"A new value of annotation "+brokerv1alpha1.LiftPausesAnnotation+" lifts it at once", message.MaxNote)
	return c
}

// liftPauses ends the pauses of a cluster if LiftPausesAnnotation of its object (see objectOf) has a new value, and
// returns the resulting view of the cluster. It ignores the annotation of any other object with the same cluster ID,
// because two objects with different values would end the pauses again and again.
func (r *Reconciler) liftPauses(ctx context.Context, obj *brokerv1alpha1.ClusterAdvertisement, v *broker.ClusterView) (*broker.ClusterView, error) {
	mark := message.Clip(obj.Annotations[brokerv1alpha1.LiftPausesAnnotation], ledger.MaxMark)
	if mark == "" || mark == v.Lifted || client.ObjectKeyFromObject(obj) != r.objectOf(v.ClusterID) {
		return v, nil
	}
	lifted, err := r.broker.LiftPauses(ctx, v.ClusterID, mark)
	if err != nil {
		return nil, err
	}
	if lifted {
		r.recorder.Eventf(obj, nil, corev1.EventTypeNormal, brokerv1alpha1.ReasonPausesLifted, "Judge",
			"an administrator lifted the pauses of cluster %s (annotation %s=%s)", v.ClusterID, brokerv1alpha1.LiftPausesAnnotation, mark)
	}
	return r.broker.Cluster(ctx, v.ClusterID)
}

// listFailures lists up to maxNamed requesters with the number of times that the provider failed each of them, the
// largest number first.
func listFailures(v *broker.ClusterView) string {
	ids := slices.SortedFunc(maps.Keys(v.Failures), func(a, b string) int {
		return cmp.Or(cmp.Compare(v.Failures[b], v.Failures[a]), cmp.Compare(a, b))
	})
	if len(ids) == 0 {
		return ""
	}
	var out []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		out = append(out, fmt.Sprintf("%d for %s", v.Failures[id], id))
	}
	if len(ids) > maxNamed {
		out = append(out, "others")
	}
	return " (" + strings.Join(out, ", ") + ")"
}

// joinFirst joins the texts about the first maxNamed clusters, in the order of their IDs.
func joinFirst(texts map[string]string) string {
	ids := slices.Sorted(maps.Keys(texts))
	var out []string
	for _, id := range ids[:min(len(ids), maxNamed)] {
		out = append(out, texts[id])
	}
	if len(ids) > maxNamed {
		out = append(out, "and others")
	}
	return strings.Join(out, "; ")
}

// recordConduct records an event when Reliable or WithinGrants changes.
func (r *Reconciler) recordConduct(before, after *brokerv1alpha1.ClusterAdvertisement) {
	for _, kind := range []string{brokerv1alpha1.ConditionReliable, brokerv1alpha1.ConditionWithinGrants} {
		is := message.ChangedCondition(after.Status.Conditions, before.Status.Conditions, kind)
		if is == nil {
			continue
		}
		level := corev1.EventTypeNormal
		if is.Status == metav1.ConditionFalse {
			level = corev1.EventTypeWarning
		}
		r.recorder.Eventf(after, nil, level, is.Reason, "Judge", "%s", message.Clip(is.Message, message.MaxNote))
	}
}
