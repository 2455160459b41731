package clusteradvertisement

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

// maxNamed bounds how many counterparts a condition names.
const maxNamed = 5

// conductConditions returns the conditions Reliable and WithinGrants, each only where it
// was false before or is false now: most clusters never have them.
func conductConditions(v *broker.ClusterView, obj *brokerv1alpha1.ClusterAdvertisement) []metav1.Condition {
	var out []metav1.Condition
	for _, c := range []metav1.Condition{reliable(v), withinGrants(v)} {
		if c.Status == metav1.ConditionFalse || meta.FindStatusCondition(obj.Status.Conditions, c.Type) != nil {
			out = append(out, c)
		}
	}
	return out
}

func reliable(v *broker.ClusterView) metav1.Condition {
	c := metav1.Condition{
		Type: brokerv1alpha1.ConditionReliable, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ConditionReliable,
		Message: "no failures keep new placements away",
	}
	const remedy = ": what runs keeps running; status.reliability counts what failed, look at the agent and at Liqo of the cluster"
	switch {
	case v.Standing == nil:
		return c
	case v.Standing.Paused != "" && v.OnTrial:
		c.Reason, c.Message = brokerv1alpha1.ReasonOnTrial, v.Standing.Paused+remedy
	case v.Standing.Paused != "":
		c.Reason, c.Message = brokerv1alpha1.ReasonPaused, "nothing new is placed here, "+v.Standing.Paused+remedy
	default:
		c.Reason, c.Message = brokerv1alpha1.ReasonPausedForSome, "nothing new is placed here for some requesters, "+named(v.Standing.PausedFor)+remedy
	}
	c.Status, c.Message = metav1.ConditionFalse, message.Clip(c.Message, message.MaxNote)
	return c
}

func withinGrants(v *broker.ClusterView) metav1.Condition {
	c := metav1.Condition{
		Type: brokerv1alpha1.ConditionWithinGrants, Status: metav1.ConditionTrue, Reason: brokerv1alpha1.ConditionWithinGrants,
		Message: "no provider keeps the cluster away for exceeding a grant",
	}
	if v.Excess == nil {
		return c
	}
	text := v.Excess.All
	if text == "" {
		text = named(v.Excess.By)
	}
	c.Status, c.Reason = metav1.ConditionFalse, brokerv1alpha1.ReasonExceededGrant
	c.Message = message.Clip(text+"; what was granted before stays. Run no more than is granted, or ask for more: the Reservations of the cluster say by how much", message.MaxNote)
	return c
}

// named joins the first texts, by their clusters.
func named(texts map[string]string) string {
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

// tellConduct records an event when one of the two conditions turns false or true again.
func (r *Reconciler) tellConduct(before, after *brokerv1alpha1.ClusterAdvertisement) {
	for _, kind := range []string{brokerv1alpha1.ConditionReliable, brokerv1alpha1.ConditionWithinGrants} {
		was, is := meta.FindStatusCondition(before.Status.Conditions, kind), meta.FindStatusCondition(after.Status.Conditions, kind)
		if is == nil || was != nil && was.Status == is.Status && was.Reason == is.Reason {
			continue
		}
		level := corev1.EventTypeNormal
		if is.Status == metav1.ConditionFalse {
			level = corev1.EventTypeWarning
		}
		r.recorder.Eventf(after, nil, level, is.Reason, "Judge", "%s", message.Clip(is.Message, message.MaxNote))
	}
}
