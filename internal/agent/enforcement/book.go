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

// unseenFor is how long an admitted pod counts although no watch event has reported it. The API
// server stores an admitted pod within milliseconds. If no event follows in this time, the API
// server has rejected the pod for another reason.
const unseenFor = 10 * time.Second

// Book counts the pods of all placements: those that a watch has reported, and those that were
// admitted but are not reported yet. It is safe for concurrent use. Each replica of the agent has
// its own Book.
type Book struct {
	mu   sync.Mutex // protects the fields below
	seen map[string]map[types.NamespacedName]Pod
	// placements maps each pod in seen to its placement.
	placements map[types.NamespacedName]string
	unseen     map[string]map[types.NamespacedName]admitted
	changed    func(placement string)
}

// admitted is an admitted pod that no watch has reported yet.
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

// notePod records a pod, or removes it if runs is false. It calls the subscriber for each placement
// that gained, lost or changed a pod.
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

// PodOf returns the facts that the Book keeps of a pod.
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

// Subscribe makes the Book call f with the name of every placement whose pods change. It first
// calls f for all placements that have pods now. Only the latest subscriber is called, and f must
// not block.
func (b *Book) Subscribe(f func(placement string)) {
	b.mu.Lock()
	b.changed = f
	known := slices.Collect(maps.Keys(b.seen))
	b.mu.Unlock()
	for _, placement := range known {
		f(placement)
	}
}

// Has reports whether a watch has reported a pod with this namespace and name that runs for a
// placement.
func (b *Book) Has(pod types.NamespacedName) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.placements[pod]
	return ok
}

// Verdict says whether a pod of a placement is admitted.
type Verdict struct {
	Fits bool
	// Short is the resource that is missing, if the pod does not fit.
	Short quantity.Shortage
	// Used is the sum of the requests of the placement's other pods, which are already admitted.
	Used quantity.Amounts
}

// Admit decides whether a pod fits into the limits together with the other pods of its placement. A
// pod that fits counts from then on, unless try is true.
func (b *Book) Admit(pod Pod, limits quantity.Amounts, now time.Time, try bool) Verdict {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expirePods(pod.Placement, now)
	v := Verdict{Used: quantity.Amounts{}}
	for _, other := range b.seen[pod.Placement] {
		v.Used.AddInPlace(other.Request)
	}
	for key, other := range b.unseen[pod.Placement] {
		if key != pod.NamespacedName { // an earlier attempt to create the same pod does not count
			v.Used.AddInPlace(other.Request)
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

// Pods returns the pods of a placement that a watch has reported. unseen is the sum of the requests
// of the pods that were admitted but are not reported yet. expires is the time until the first of
// these admitted pods stops counting, 0 if there are none.
func (b *Book) Pods(placement string, now time.Time) (pods []Pod, unseen quantity.Amounts, expires time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expirePods(placement, now)
	pods, unseen = slices.Collect(maps.Values(b.seen[placement])), quantity.Amounts{}
	for _, a := range b.unseen[placement] {
		unseen.AddInPlace(a.Request)
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
