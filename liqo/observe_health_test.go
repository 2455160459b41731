package liqo

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestHealthQuotesNewestWarningOfThePod(t *testing.T) {
	now := time.Now()
	event := func(name, pod, kind, reason string, change func(*corev1.Event)) client.Object {
		e := &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}, InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "demo", Name: pod, UID: types.UID(pod + "-uid")},
			Type: kind, Reason: reason, Message: "line one\n  line two", LastTimestamp: metav1.NewTime(now),
		}
		change(e)
		return e
	}
	at := func(d time.Duration) func(*corev1.Event) {
		return func(e *corev1.Event) { e.LastTimestamp = metav1.NewTime(now.Add(d)) }
	}
	for name, tt := range map[string]struct {
		events []client.Object
		want   string
	}{
		"there is none": {},
		"the newest counts, not the first": {[]client.Object{
			event("a", "p", "Warning", "FailedMount", at(-time.Minute)), event("b", "p", "Warning", "FailedReflection", at(0)), event("c", "p", "Warning", "Other", at(-time.Second)),
		}, "FailedReflection: line one line two"},
		"events of the newer API have other times": {[]client.Object{
			event("a", "p", "Warning", "FailedMount", at(0)),
			event("b", "p", "Warning", "FailedReflection", func(e *corev1.Event) {
				e.LastTimestamp, e.EventTime = metav1.Time{}, metav1.NewMicroTime(now.Add(-time.Hour))
				e.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(now.Add(time.Second))}
			}),
		}, "FailedReflection: line one line two"},
		"the agent's own event does not count": {[]client.Object{
			event("a", "p", "Warning", "FailedReflection", at(-time.Minute)), event("b", "p", "Warning", "PodsRejected", at(0)),
		}, "FailedReflection: line one line two"},
		"the scheduler's event from before the pod had its node does not count": {[]client.Object{
			event("a", "p", "Warning", "FailedScheduling", at(0)),
		}, ""},
		"the event of the provider's scheduler counts": {[]client.Object{
			event("a", "p", "Warning", "FailedScheduling", func(e *corev1.Event) { e.Source.Component = " (remote)" }),
		}, "FailedScheduling: line one line two"},
		"the refusal of the provider's API server counts": {[]client.Object{
			event("a", "p", "Warning", "FailedReflection", at(-time.Minute)),
			event("b", "p", "Warning", "FailedCreatePod", func(e *corev1.Event) { e.InvolvedObject.Kind = "ShadowPod" }),
		}, "FailedCreatePod: line one line two"},
		"events of other pods do not count, nor successes": {[]client.Object{
			event("a", "q", "Warning", "FailedReflection", at(0)), event("b", "p", "Normal", "SuccessfulReflection", at(0)),
		}, ""},
		"events of an earlier pod of that name do not count": {[]client.Object{
			event("a", "p", "Warning", "FailedReflection", func(e *corev1.Event) { e.InvolvedObject.UID = "earlier" }),
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				for _, e := range tt.events {
					w.check(w.sites["rome"].client.Create(t.Context(), e))
				}
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p", UID: "p-uid"}}
				if got := (consumerSide{w.sites["rome"].peering}).newestWarning(t.Context(), pod); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			})
		})
	}
}

func TestWaitingPodIsReportedWithoutTheRightToReadEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.reserve("rome", "paris", "res-a")
		w.until("the node is ready", nil, func() bool { return w.nodeReady("rome", "res-a-1") })
		p := w.sites["rome"].peering
		p.opts.Unaccepted = func(string, time.Time) (int, string) { return 1, "demo/p" }
		p.opts.Unplaced = func(string, time.Time) (int, string) { return 0, "" }
		p.opts.Runs = func(string) bool { return false }
		p.opts.Reader = noEvents{p.opts.Reader}
		if got := w.stateOf("rome", "res-a"); got.Health.Reason != "PodsRejected" || got.Concerned != nil {
			t.Errorf("got %+v, pod %v", got.Health, got.Concerned)
		}
		w.check(w.sites["rome"].client.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "p", UID: "p-uid"}}))
		want := &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: "demo", Name: "p", UID: "p-uid"}
		if diff := cmp.Diff(want, w.stateOf("rome", "res-a").Concerned); diff != "" {
			t.Errorf("the pod of the event (-want +got):\n%s", diff)
		}
	})
}

type noEvents struct{ client.Reader }

func (n noEvents) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.EventList); ok {
		return errors.New("forbidden")
	}
	return n.Reader.List(ctx, list, opts...)
}
