package liqo

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// healthInterval is how often the pods on a virtual node are counted. They are not watched.
const healthInterval = 30 * time.Second

// acceptWithin is how long Liqo may take to copy a pod to the provider, and the provider to find a
// node for it, before the placement counts as unhealthy. Usually each takes a second.
const acceptWithin = 30 * time.Second

func (p consumerSide) observeHealth(ctx context.Context, s *consumerScene) error {
	s.Health.Delivered = s.inst.Status.Delivered
	if p.opts.Unaccepted == nil || s.Release {
		return nil
	}
	h := &s.Health
	before := s.now.Add(-acceptWithin)
	if h.Unaccepted, h.WaitingPod = p.opts.Unaccepted(s.Name, before); h.Unaccepted == 0 {
		h.Unplaced, h.WaitingPod = p.opts.Unplaced(s.Name, before)
	}
	if h.WaitingPod == "" {
		p.observeServices(ctx, s)
		return nil
	}
	h.Event = p.newestWarning(ctx, h.WaitingPod)
	namespace, name, _ := strings.Cut(h.WaitingPod, "/")
	var pod corev1.Pod
	if found, err := object.Get(ctx, p.opts.Reader, namespace, name, &pod); err != nil || !found {
		return nil // the condition needs only the name
	}
	// Without the UID, kubectl describe does not show an event.
	h.Ref = &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: pod.UID}
	if h.Unplaced > 0 && !p.opts.Runs(s.Name) {
		promised, err := p.isPromised(ctx, s.inst, &pod)
		h.Unserved = promised
		return err
	}
	return nil
}

// newestWarning returns the reason and message of the newest Warning event about a pod on a virtual
// node, "" if there is none. It ignores the agent's own, and those of this cluster's scheduler, which
// are older than the pod's node. Liqo records why it cannot copy the pod only in such an event, and
// copies the events of the provider, whose source ends with "(remote)". If the API server there refuses
// the pod, the event is about its ShadowPod. An error is only logged: the event explains the condition
// and decides nothing.
func (p consumerSide) newestWarning(ctx context.Context, pod string) string {
	namespace, name, _ := strings.Cut(pod, "/")
	var events corev1.EventList
	err := p.opts.Reader.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{
		"involvedObject.name": name, "type": corev1.EventTypeWarning,
	})
	if err != nil {
		p.opts.Log.Error(err, "listing the events of a waiting pod failed", "pod", pod)
	}
	events.Items = slices.DeleteFunc(events.Items, func(e corev1.Event) bool {
		return !slices.Contains([]string{"Pod", "ShadowPod"}, e.InvolvedObject.Kind) || e.Reason == agentv1alpha1.ReasonPodsRejected ||
			e.Reason == "FailedScheduling" && !strings.HasSuffix(e.Source.Component, "(remote)")
	})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	newest := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	return textOf(&newest)
}

// textOf returns the reason and message of an event in one line: a line break would split the row of
// the condition in tables.
func textOf(e *corev1.Event) string {
	return strings.Join(strings.Fields(e.Reason+": "+e.Message), " ")
}

// lastSeen returns when an event occurred last. Which fields are set depends on the API with which
// the event was written.
func lastSeen(e *corev1.Event) time.Time {
	seen := []time.Time{e.CreationTimestamp.Time, e.LastTimestamp.Time, e.EventTime.Time}
	if e.Series != nil {
		seen = append(seen, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(seen, time.Time.Compare)
}

// unreachableReason returns why Liqo does not reach a peer's API server, or "" if Liqo does.
func unreachableReason(fc *liqov1beta1.ForeignCluster) string {
	for _, c := range fc.Status.Conditions {
		if c.Type == liqov1beta1.APIServerStatusCondition && c.Status == liqov1beta1.ConditionStatusError {
			return cmp.Or(c.Message, "it does not answer")
		}
	}
	return ""
}
