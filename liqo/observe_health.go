package liqo

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	liqov1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"

	agentv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/agent/v1alpha1"
	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
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
		if p.observeMounts(ctx, s); h.WaitingPod == "" {
			p.observeServices(ctx, s)
		}
		return nil
	}
	namespace, name, _ := strings.Cut(h.WaitingPod, "/")
	var pod corev1.Pod
	if found, err := object.Get(ctx, p.opts.Reader, namespace, name, &pod); err != nil || !found {
		return nil // the condition needs only the name
	}
	h.Event = p.newestWarning(ctx, &pod)
	h.Ref = refOf(&pod)
	if h.Unplaced > 0 && !p.opts.Runs(s.Name) {
		promised, err := p.isPromised(ctx, s.inst, &pod)
		h.Unserved = promised
		return err
	}
	return nil
}

// newestWarning returns the reason and message of the newest Warning event about a pod on a virtual node,
// "" if there is none. It ignores the agent's own, and those of this cluster's scheduler, which are older
// than the pod's node. Liqo records why it cannot copy the pod only in such an event, and copies the events
// of the provider, whose source ends with "(remote)". If the API server there refuses the pod, the copy is
// about a ShadowPod, with the UID of the pod. Events of an earlier pod of that name, as of a StatefulSet,
// have another UID. An error is only logged: the event explains the condition and decides nothing.
func (p consumerSide) newestWarning(ctx context.Context, pod *corev1.Pod) string {
	var events corev1.EventList
	err := p.opts.Reader.List(ctx, &events, client.InNamespace(pod.Namespace), client.MatchingFields{
		"involvedObject.uid": string(pod.UID), "type": corev1.EventTypeWarning,
	})
	if err != nil {
		p.opts.Log.Error(err, "listing the events of a waiting pod failed", "namespace", pod.Namespace, "pod", pod.Name)
	}
	events.Items = slices.DeleteFunc(events.Items, func(e corev1.Event) bool {
		return e.Reason == agentv1alpha1.ReasonPodsRejected || e.Reason == "FailedScheduling" && !strings.HasSuffix(e.Source.Component, "(remote)")
	})
	if err != nil || len(events.Items) == 0 {
		return ""
	}
	newest := slices.MaxFunc(events.Items, func(a, b corev1.Event) int { return lastSeen(&a).Compare(lastSeen(&b)) })
	return textOf(&newest)
}

// textOf keeps to one line: a line break would split the row of the condition in tables.
func textOf(e *corev1.Event) string {
	return strings.Join(strings.Fields(e.Reason+": "+e.Message), " ")
}

// lastSeen considers all fields of a time: which are set depends on the API with which the event was written.
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

// isPromised reports whether the provider has promised a node for a pod: the pod is not larger than
// one of the pods in podShapes of the request, for which a provider checks that they fit before it
// accepts a placement, and has no constraints of its own there.
//
// The broker learns only of such pods. Any other pod may be at fault itself, and would have an honest
// provider blamed. Refusals do not count at all: nothing but an event tells why a copy was refused,
// and whoever may edit the namespace can write such an event.
func (p consumerSide) isPromised(ctx context.Context, inst *agentv1alpha1.ReservationInstruction, pod *corev1.Pod) (bool, error) {
	ref := inst.Spec.RequestRef
	if ref == nil || isConstrained(&pod.Spec) {
		return false, nil
	}
	var request agentv1alpha1.ResourceRequest
	if err := p.opts.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, &request); err != nil || string(request.UID) != ref.UID {
		return false, client.IgnoreNotFound(err)
	}
	wants := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	return slices.ContainsFunc(request.Spec.PodShapes, func(shape brokerv1alpha1.PodShape) bool {
		return !quantity.Exceeds(wants, corev1.ResourceList(shape.Resources))
	}), nil
}

// isConstrained reports whether a pod has constraints, besides its size, that Liqo copies to the
// provider and that some nodes there may not meet. Liqo copies neither node selectors nor affinity.
func isConstrained(pod *corev1.PodSpec) bool {
	return len(pod.TopologySpreadConstraints) > 0 || pod.RuntimeClassName != nil || len(pod.ResourceClaims) > 0 ||
		slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool {
			return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil
		}) ||
		slices.ContainsFunc(slices.Concat(pod.Containers, pod.InitContainers), func(c corev1.Container) bool {
			return slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 })
		})
}

// refOf returns a reference to a pod for an event. Without the UID, kubectl describe does not show the event.
func refOf(pod *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// reflections holds the newest event about each object of a kind in a namespace, for one provider.
type reflections struct {
	// at is when the events were listed.
	at     time.Time
	newest map[string]*corev1.Event
}

// observeMounts finds a pod that waits for a ConfigMap or Secret which the provider refuses, for example because it is
// too large. The pod's own events only say that the object is not found. Errors are only logged.
func (p consumerSide) observeMounts(ctx context.Context, s *consumerScene) {
	for _, namespace := range s.inst.Spec.Namespaces {
		refused := append(p.refusalsOf(ctx, "ConfigMap", namespace, s), p.refusalsOf(ctx, "Secret", namespace, s)...)
		if len(refused) == 0 {
			continue
		}
		var pods corev1.PodList
		if err := p.opts.Reader.List(ctx, &pods, client.InNamespace(namespace), client.MatchingFields{"spec.nodeName": s.Name}); err != nil {
			p.opts.Log.Error(err, "listing the pods of a virtual node failed", "namespace", namespace, "node", s.Name)
			return
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Status.Phase != corev1.PodPending {
				continue
			}
			why := p.newestWarning(ctx, pod)
			for _, e := range refused {
				if o := e.InvolvedObject; strings.Contains(why, strings.ToLower(o.Kind)) && strings.Contains(why, fmt.Sprintf("%q not found", o.Name)) {
					s.Health.Unaccepted, s.Health.WaitingPod, s.Health.Ref = 1, namespace+"/"+pod.Name, refOf(pod)
					s.Health.Event = fmt.Sprintf("%s %q: %s", o.Kind, o.Name, textOf(e))
					return
				}
			}
		}
	}
}

// observeServices finds a Service of the placement's namespaces whose endpoints the provider refuses,
// for example because the provider's namespace has a Service of that name. Errors are only logged: the
// Service explains the condition and decides nothing.
func (p consumerSide) observeServices(ctx context.Context, s *consumerScene) {
	for _, namespace := range s.inst.Spec.Namespaces {
		for _, e := range p.refusalsOf(ctx, "EndpointSlice", namespace, s) {
			endpoints := object.NewMetadata(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
			if exists, err := object.Get(ctx, p.opts.Reader, namespace, e.InvolvedObject.Name, endpoints); err != nil || !exists {
				continue // the event of a deleted object stays for a while
			}
			if service := endpoints.GetLabels()[discoveryv1.LabelServiceName]; service != "" {
				s.Health.Service, s.Health.Event = namespace+"/"+service, textOf(e)
				s.Health.Ref = serviceOf(endpoints, service)
				return
			}
		}
	}
}

// refusalsOf returns the newest event about each object of a kind that the provider refuses, sorted by the objects'
// names. Liqo says so only in events, which it repeats as long as it retries. It lists them at most once per
// healthInterval.
func (p consumerSide) refusalsOf(ctx context.Context, kind, namespace string, s *consumerScene) (refused []*corev1.Event) {
	key := kind + "/" + namespace + "/" + s.Provider
	known, ok := p.reflections[key]
	if !ok || !s.now.Before(known.at.Add(healthInterval)) {
		maps.DeleteFunc(p.reflections, func(_ string, r reflections) bool { return !s.now.Before(r.at.Add(healthInterval)) })
		known = reflections{s.now, p.listReflections(ctx, kind, namespace, s.Provider)}
		p.reflections[key] = known
	}
	for _, name := range slices.Sorted(maps.Keys(known.newest)) {
		if e := known.newest[name]; e.Type == corev1.EventTypeWarning && e.CreationTimestamp.Time.Before(s.now.Add(-acceptWithin)) {
			refused = append(refused, e)
		}
	}
	return refused
}

func (p consumerSide) listReflections(ctx context.Context, kind, namespace, provider string) map[string]*corev1.Event {
	var events corev1.EventList
	err := p.opts.Reader.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": kind})
	if err != nil {
		p.opts.Log.Error(err, "listing events failed", "namespace", namespace, "about", kind)
	}
	newest := map[string]*corev1.Event{}
	for i := range events.Items {
		e := &events.Items[i]
		name := e.InvolvedObject.Name
		if !strings.Contains(e.Message, fmt.Sprintf("to cluster %q", provider)) {
			continue
		}
		if known := newest[name]; known == nil || lastSeen(known).Before(lastSeen(e)) {
			newest[name] = e
		}
	}
	return newest
}

// serviceOf returns a reference to the Service of an EndpointSlice. Without the UID of the Service, which
// it has if the EndpointSlice names its owner, kubectl describe does not show an event.
func serviceOf(endpoints metav1.Object, name string) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: endpoints.GetNamespace(), Name: name}
	if owner := metav1.GetControllerOfNoCopy(endpoints); owner != nil && owner.Kind == ref.Kind {
		ref.UID = owner.UID
	}
	return ref
}
