package liqo

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mehdiazizian/liqo-resource-broker/liqo/object"
)

// reflections holds the newest event about each EndpointSlice of a namespace, for one provider.
type reflections struct {
	// at is when the events were listed.
	at     time.Time
	newest map[string]*corev1.Event
}

// observeServices finds a Service of the placement's namespaces whose endpoints the provider refuses,
// for example because the provider's namespace has a Service of that name. Liqo says so only in
// events about EndpointSlices, which it repeats as long as it retries. Errors are only logged: the
// Service explains the condition and decides nothing.
func (p consumerSide) observeServices(ctx context.Context, s *consumerScene) {
	for _, namespace := range s.inst.Spec.Namespaces {
		found := p.reflectionsOf(ctx, namespace, s)
		for _, name := range slices.Sorted(maps.Keys(found)) {
			e := found[name]
			if e.Type != corev1.EventTypeWarning || !e.CreationTimestamp.Time.Before(s.now.Add(-acceptWithin)) {
				continue
			}
			endpoints := object.NewMetadata(discoveryv1.SchemeGroupVersion.WithKind("EndpointSlice"))
			if exists, err := object.Get(ctx, p.opts.Reader, namespace, name, endpoints); err != nil || !exists {
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

// reflectionsOf returns the newest event about each EndpointSlice of a namespace. It lists events at
// most once per healthInterval.
func (p consumerSide) reflectionsOf(ctx context.Context, namespace string, s *consumerScene) map[string]*corev1.Event {
	key := namespace + "/" + s.Provider
	if known, ok := p.reflections[key]; ok && s.now.Before(known.at.Add(healthInterval)) {
		return known.newest
	}
	maps.DeleteFunc(p.reflections, func(_ string, r reflections) bool { return !s.now.Before(r.at.Add(healthInterval)) })
	var events corev1.EventList
	err := p.opts.Reader.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.kind": "EndpointSlice"})
	if err != nil {
		p.opts.Log.Error(err, "listing the events of EndpointSlices failed", "namespace", namespace)
	}
	newest := map[string]*corev1.Event{}
	for i := range events.Items {
		e := &events.Items[i]
		name := e.InvolvedObject.Name
		if !strings.Contains(e.Message, fmt.Sprintf("to cluster %q", s.Provider)) {
			continue
		}
		if known := newest[name]; known == nil || lastSeen(known).Before(lastSeen(e)) {
			newest[name] = e
		}
	}
	p.reflections[key] = reflections{s.now, newest}
	return newest
}

func serviceOf(endpoints metav1.Object, name string) *corev1.ObjectReference {
	ref := &corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: endpoints.GetNamespace(), Name: name}
	if owner := metav1.GetControllerOfNoCopy(endpoints); owner != nil && owner.Kind == ref.Kind {
		ref.UID = owner.UID
	}
	return ref
}
