package enforcement

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"pgregory.net/rapid"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

const placement = "res-0123456789-1"

// object returns the pod that Liqo creates for a ShadowPod of the placement.
func object(name string, uid types.UID, millicores int64) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "demo-rome", Name: name, UID: uid, CreationTimestamp: metav1.NewTime(noon),
			Labels:          map[string]string{"liqo.io/creator-user": placement + "-0123456789ab"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "offloading.liqo.io/v1beta1", Kind: "ShadowPod", Name: name, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(millicores, resource.DecimalSI)},
		}}}},
	}
}

var limits = quantity.Amounts{corev1.ResourceCPU: 500, corev1.ResourcePods: DefaultPods}

func (b *Book) try(name string, uid types.UID, millicores int64, at time.Time) bool {
	return b.Admit(PodOf(object(name, uid, millicores)), limits, at, false).Fits
}

func TestBookCountsPodsFromTheirAdmission(t *testing.T) {
	b := NewBook()
	if !b.try("a", "1", 300, noon) {
		t.Fatal("the first pod fits")
	}
	if b.try("b", "2", 300, noon) {
		t.Error("a pod that was admitted and not seen yet counts")
	}
	if !b.try("a", "3", 500, noon) {
		t.Error("another attempt at the same pod replaces the first")
	}
	b.OnAdd(object("a", "3", 500), false)
	if b.try("b", "2", 1, noon.Add(time.Hour)) {
		t.Error("a pod that is seen counts as long as it runs")
	}
	v := b.Admit(PodOf(object("b", "2", 100)), limits, noon, false)
	if diff := cmp.Diff(quantity.Shortage{Resource: corev1.ResourceCPU, Need: 100, Have: 0}, v.Short); diff != "" || v.Used[corev1.ResourceCPU] != 500 {
		t.Errorf("the verdict names the figures, it says %+v", v)
	}
}

func TestBookForgetsPodsThatNeverCame(t *testing.T) {
	b := NewBook()
	b.try("a", "1", 500, noon)
	if b.try("b", "2", 500, noon.Add(unseenFor-1)) {
		t.Error("an admitted pod counts until it is overdue")
	}
	if _, _, expires := b.Pods(placement, noon.Add(time.Second)); expires != unseenFor-time.Second {
		t.Errorf("it is overdue in %s", expires)
	}
	if !b.try("b", "2", 500, noon.Add(unseenFor)) {
		t.Error("an admitted pod that did not come no longer counts")
	}
}

func TestBookKeepsWhatEndsAndDropsWhatHasEnded(t *testing.T) {
	b := NewBook()
	running := object("a", "1", 500)
	b.OnAdd(running, true)
	ending := running.DeepCopy()
	ending.DeletionTimestamp, ending.DeletionGracePeriodSeconds = new(metav1.NewTime(noon.Add(365*24*time.Hour))), new(int64(365*24*3600))
	b.OnUpdate(running, ending)
	if b.try("b", "2", 1, noon) {
		t.Error("a terminating pod still runs")
	}
	if pods, _, _ := b.Pods(placement, noon); len(pods) != 1 || pods[0].Evicted {
		t.Error("a pod with a long grace period may still be evicted")
	}
	short := ending.DeepCopy()
	short.DeletionGracePeriodSeconds = new(int64(1))
	b.OnUpdate(ending, short)
	if pods, _, _ := b.Pods(placement, noon); len(pods) != 1 || !pods[0].Evicted {
		t.Error("a pod with the shortest grace period is on its way out")
	}
	finished := running.DeepCopy()
	finished.Status.Phase = corev1.PodSucceeded
	b.OnUpdate(short, finished)
	if !b.try("b", "2", 500, noon) {
		t.Error("a finished pod counts for nothing")
	}
	b.OnDelete(cache.DeletedFinalStateUnknown{Obj: object("b", "2", 500)})
	if !b.try("c", "3", 500, noon) {
		t.Error("a pod that is gone before it was seen counts for nothing")
	}
}

func TestDryRunLeavesNoTraceInBook(t *testing.T) {
	b := NewBook()
	if !b.Admit(PodOf(object("a", "1", 500)), limits, noon, true).Fits || !b.try("b", "2", 500, noon) {
		t.Error("a dry run is answered, and counts for nothing")
	}
}

func TestBookIgnoresOtherPods(t *testing.T) {
	b := NewBook()
	foreign := object("a", "1", 500)
	foreign.OwnerReferences = nil
	b.OnAdd(foreign, true)
	if !b.try("b", "2", 500, noon) {
		t.Error("a pod that no ShadowPod controls is not the consumer's")
	}
}

func TestBookReportsChangedPlacements(t *testing.T) {
	b := NewBook()
	b.OnAdd(object("a", "1", 500), true)
	var told []string
	b.Subscribe(func(p string) { told = append(told, p) })
	b.OnDelete(object("a", "1", 500))
	if diff := cmp.Diff([]string{placement, placement}, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

// Concurrent requests never get more admitted than the grant.
func TestBookAdmitsNoMoreThanIsGrantedAtOnce(t *testing.T) {
	b := NewBook()
	var asking sync.WaitGroup
	var mu sync.Mutex
	admitted := 0
	for i := range 64 {
		asking.Go(func() {
			if b.try(fmt.Sprintf("p%d", i), types.UID(fmt.Sprint(i)), 100, noon) {
				mu.Lock()
				admitted++
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	if admitted != 5 {
		t.Errorf("%d pods of 100m were admitted into 500m", admitted)
	}
}

// In any order of requests, delayed events and endings, the existing pods never exceed the
// grant. Without pending events, every pod that fits is admitted.
func TestBookProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, now, next := NewBook(), noon, 0
		// exists is the state of the API server, news the events that the watch has not
		// delivered yet.
		exists := map[string]*corev1.Pod{}
		var news []func()
		use := func() (sum int64) {
			for _, p := range exists {
				sum += RequestOf(p)[corev1.ResourceCPU]
			}
			return sum
		}
		t.Repeat(map[string]func(*rapid.T){
			"a pod is created": func(t *rapid.T) {
				next++
				cpu := rapid.Int64Range(1, 400).Draw(t, "cpu")
				p := object(fmt.Sprintf("p%d", next), types.UID(fmt.Sprint(next)), cpu)
				v := b.Admit(PodOf(p), limits, now, false)
				if !v.Fits {
					if len(news) == 0 && use()+cpu <= 500 && v.Used[corev1.ResourceCPU] == use() {
						t.Fatalf("%d was refused beside %d", cpu, use())
					}
					return
				}
				if rapid.IntRange(0, 4).Draw(t, "another webhook refuses it") == 0 {
					return
				}
				exists[p.Name] = p
				news = append(news, func() { b.OnAdd(p, false) })
			},
			"a pod ends": func(t *rapid.T) {
				for name, p := range exists {
					delete(exists, name)
					news = append(news, func() { b.OnDelete(p) })
					return
				}
			},
			"the watch shows something": func(t *rapid.T) {
				if len(news) > 0 {
					news[0]()
					news = news[1:]
				}
			},
			"time passes and all news arrive": func(t *rapid.T) {
				for _, show := range news {
					show()
				}
				news, now = nil, now.Add(unseenFor)
			},
			"": func(t *rapid.T) {
				if use() > 500 {
					t.Fatalf("%d millicores run, 500 are granted", use())
				}
			},
		})
	})
}
