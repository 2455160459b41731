package enforcement

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/mehdiazizian/liqo-resource-broker/internal/agent/capacity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// unseenFor is how long an admitted pod counts before a watch has shown it. The API server
// stores an admitted pod within milliseconds, or rejects it for another reason.
const unseenFor = 10 * time.Second

// Book counts the pods of all placements: those that a watch has shown, and those admitted
// since. It is safe for concurrent use. Each replica of the agent has its own.
type Book struct {
	mu   sync.Mutex // guards the following
	seen map[string]map[types.NamespacedName]Pod
	// placements maps the pods in seen to their placements.
	placements map[types.NamespacedName]string
	unseen     map[string]map[types.NamespacedName]admitted
	changed    func(placement string)
}

// admitted is a pod that no watch has shown yet.
type admitted struct {
	Pod
	expires time.Time
}

// NewBook returns an empty Book.
func NewBook() *Book {
	return &Book{
		seen: map[string]map[types.NamespacedName]Pod{}, placements: map[types.NamespacedName]string{},
		unseen: map[string]map[types.NamespacedName]admitted{}, changed: func(string) {},
	}
}

var _ cache.ResourceEventHandler = &Book{}

// OnAdd implements cache.ResourceEventHandler.
func (b *Book) OnAdd(obj any, _ bool) { b.setPod(obj) }

// OnUpdate implements cache.ResourceEventHandler.
func (b *Book) OnUpdate(_, obj any) { b.setPod(obj) }

// OnDelete implements cache.ResourceEventHandler.
func (b *Book) OnDelete(obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if pod, ok := obj.(*corev1.Pod); ok {
		b.notePod(pod, false)
	}
}

func (b *Book) setPod(obj any) {
	if pod, ok := obj.(*corev1.Pod); ok {
		b.notePod(pod, !capacity.Finished(pod))
	}
}

// notePod records a pod, or forgets one that no longer runs. It passes the affected placements to
// the subscriber.
func (b *Book) notePod(pod *corev1.Pod, runs bool) {
	key := types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
	placement := capacity.PlacementOf(&pod.ObjectMeta)
	b.mu.Lock()
	before, known := b.placements[key]
	if known {
		delete(b.seen[before], key)
		delete(b.placements, key)
		if len(b.seen[before]) == 0 {
			delete(b.seen, before)
		}
	}
	if placement != "" {
		if a, ok := b.unseen[placement][key]; ok && (a.UID == "" || a.UID == pod.UID) {
			b.forgetPod(placement, key)
		}
		if runs {
			if b.seen[placement] == nil {
				b.seen[placement] = map[types.NamespacedName]Pod{}
			}
			b.seen[placement][key], b.placements[key] = PodOf(pod), placement
		}
	}
	changed := b.changed
	b.mu.Unlock()
	if known && before != placement {
		changed(before)
	}
	if placement != "" {
		changed(placement)
	}
}

// PodOf converts a pod of a placement.
func PodOf(pod *corev1.Pod) Pod {
	p := Pod{
		NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID,
		Placement: capacity.PlacementOf(&pod.ObjectMeta), Created: pod.CreationTimestamp.Time, Request: RequestOf(pod),
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		p.Owner = owner.UID
	}
	grace := pod.DeletionGracePeriodSeconds
	p.Evicted = pod.DeletionTimestamp != nil && grace != nil && *grace <= int64(EvictionGrace.Seconds())
	return p
}

// Subscribe makes the Book call f with the name of every placement whose pods change, and first
// with those already known. There is only one subscriber, and f must not block.
func (b *Book) Subscribe(f func(placement string)) {
	b.mu.Lock()
	b.changed = f
	known := slices.Collect(maps.Keys(b.seen))
	b.mu.Unlock()
	for _, placement := range known {
		f(placement)
	}
}

// Has reports whether a watch has shown a pod of a placement.
func (b *Book) Has(pod types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.placements[pod]
	return ok
}

// Verdict is the decision about a pod of a placement.
type Verdict struct {
	Fits bool
	// Short is the missing capacity if the pod does not fit.
	Short quantity.Shortage
	// Used is the sum of the requests of the placement's other pods.
	Used quantity.Amounts
}

// Admit decides whether a pod fits into the limits together with the other pods of its
// placement. An admitted pod counts from then on, unless try is set.
func (b *Book) Admit(pod Pod, limits quantity.Amounts, now time.Time, try bool) Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expirePods(pod.Placement, now)
	v := Verdict{Used: quantity.Amounts{}}
	for _, other := range b.seen[pod.Placement] {
		addTo(v.Used, other.Request)
	}
	for key, other := range b.unseen[pod.Placement] {
		if key != pod.NamespacedName { // skip an earlier attempt at the same pod
			addTo(v.Used, other.Request)
		}
	}
	v.Short, v.Fits = quantity.Fits(pod.Request, limits.Sub(v.Used))
	if v.Fits && !try {
		if b.unseen[pod.Placement] == nil {
			b.unseen[pod.Placement] = map[types.NamespacedName]admitted{}
		}
		b.unseen[pod.Placement][pod.NamespacedName] = admitted{Pod: pod, expires: now.Add(unseenFor)}
	}
	return v
}

// Pods returns the pods of a placement that a watch has shown, and the sum of the pods admitted
// since. expires is when the first of the latter stops counting; 0 if there are none.
func (b *Book) Pods(placement string, now time.Time) (pods []Pod, unseen quantity.Amounts, expires time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expirePods(placement, now)
	pods, unseen = slices.Collect(maps.Values(b.seen[placement])), quantity.Amounts{}
	for _, a := range b.unseen[placement] {
		addTo(unseen, a.Request)
		if left := a.expires.Sub(now); expires == 0 || left < expires {
			expires = left
		}
	}
	return pods, unseen, expires
}

func (b *Book) expirePods(placement string, now time.Time) {
	for key, a := range b.unseen[placement] {
		if !a.expires.After(now) {
			b.forgetPod(placement, key)
		}
	}
}

func (b *Book) forgetPod(placement string, key types.NamespacedName) {
	delete(b.unseen[placement], key)
	if len(b.unseen[placement]) == 0 {
		delete(b.unseen, placement)
	}
}
