package attacks

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/mehdiazizian/liqo-resource-broker/e2e"
)

// overFor is how long a consumer may exceed its grant by one pod. E1 allows two seconds, in which
// the agent must notice the pod and evict it. On a busy machine the agent, the API server and the
// observer itself wait for a CPU in that time, and the timestamps of pods have whole seconds, so
// the bound only tells an eviction from none. verify logs the longest excess.
const overFor = 30 * time.Second

// observer watches the pods of a provider and checks invariant E1 at every event: a consumer's
// usage is at most its grant, except for one pod that is soon evicted. It computes usage from the
// pods alone and shares no code with the product.
type observer struct {
	grants map[string]corev1.ResourceList // by consumer
	now    func() time.Time

	mu sync.Mutex // guards the fields below
	// landings maps each offloaded namespace to its consumer.
	landings map[string]string
	pods     map[types.UID]*corev1.Pod
	// overSince is when each consumer began to exceed its grant.
	overSince map[string]time.Time
	// longest is the longest excess that has ended.
	longest time.Duration
	// most is the largest CPU usage seen of each consumer.
	most       map[string]resource.Quantity
	events     int
	violations []string
}

// observe watches the provider's pods until the test ends.
func observe(t *testing.T, provider *e2e.Cluster, grants map[string]corev1.ResourceList) *observer {
	t.Helper()
	o := newObserver(grants, time.Now)
	clients, err := kubernetes.NewForConfig(provider.Config)
	check(t, err)
	factory := informers.NewSharedInformerFactory(clients, 0)
	_, err = factory.Core().V1().Namespaces().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.seeNamespace(obj.(*corev1.Namespace)) },
		UpdateFunc: func(_, obj any) { o.seeNamespace(obj.(*corev1.Namespace)) },
	})
	check(t, err)
	_, err = factory.Core().V1().Pods().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { o.seePod(obj.(*corev1.Pod)) },
		UpdateFunc: func(_, obj any) { o.seePod(obj.(*corev1.Pod)) },
		DeleteFunc: o.losePod,
	})
	check(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	// An excess that persists causes no further events, so usage is checked periodically too.
	go func() {
		for tick := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				o.mu.Lock()
				o.judge()
				o.mu.Unlock()
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	return o
}

func newObserver(grants map[string]corev1.ResourceList, now func() time.Time) *observer {
	return &observer{
		grants: grants, now: now, landings: map[string]string{}, pods: map[types.UID]*corev1.Pod{},
		overSince: map[string]time.Time{}, most: map[string]resource.Quantity{},
	}
}

func (o *observer) seeNamespace(ns *corev1.Namespace) {
	consumer, offloaded := ns.Labels["liqo.io/remote-cluster-id"]
	_, office := ns.Labels["liqo.io/tenant-namespace"]
	if !offloaded || office {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.landings[ns.Name] = consumer
	o.judge()
}

func (o *observer) seePod(pod *corev1.Pod) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events++
	o.pods[pod.UID] = pod
	o.judge()
}

func (o *observer) losePod(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events++
	delete(o.pods, pod.UID)
	o.judge()
}

// judge compares usage with the grants, and records an excess as a violation if it lasts too long
// or is larger than one pod. The caller holds mu.
func (o *observer) judge() {
	now := o.now()
	for consumer, granted := range o.grants {
		used, largest, names := o.usage(consumer)
		if most := o.most[consumer]; used.Cpu().Cmp(most) > 0 {
			o.most[consumer] = used.Cpu().DeepCopy()
		}
		since, over := o.overSince[consumer]
		if fits(used, granted) {
			if over {
				o.longest = max(o.longest, now.Sub(since))
				delete(o.overSince, consumer)
			}
			continue
		}
		if !over {
			o.overSince[consumer] = now
			since = now
		}
		without := subtract(used, largest)
		switch {
		case !fits(without, granted):
			o.violate("%s runs %s, more than one pod above its grant: %v", consumer, words(used), names)
		case now.Sub(since) > overFor:
			o.violate("%s has run %s for %s, its grant is %s: %v", consumer, words(used), now.Sub(since).Round(time.Millisecond), words(granted), names)
		}
	}
}

// violate records a violation. It keeps only the first few, which suffice to find the cause.
func (o *observer) violate(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); len(o.violations) < 5 && !slices.Contains(o.violations, text) {
		o.violations = append(o.violations, text)
	}
}

// usage sums the requests of a consumer's pods that occupy a node, and also returns the requests of
// the largest pod.
func (o *observer) usage(consumer string) (used, largest corev1.ResourceList, names []string) {
	used, largest = corev1.ResourceList{}, corev1.ResourceList{}
	for _, pod := range o.pods {
		if o.landings[pod.Namespace] != consumer || pod.Spec.NodeName == "" || isOver(pod) {
			continue
		}
		wanted := demandOf(&pod.Spec)
		add(used, wanted)
		if len(names) == 0 || largerThan(wanted, largest) {
			largest = wanted
		}
		names = append(names, pod.Namespace+"/"+pod.Name+" "+words(wanted))
	}
	return used, largest, names
}

func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// largerThan compares CPU first, then memory.
func largerThan(a, b corev1.ResourceList) bool {
	if by := a.Cpu().Cmp(*b.Cpu()); by != 0 {
		return by > 0
	}
	return a.Memory().Cmp(*b.Memory()) > 0
}

// demandOf returns the amount that the scheduler reserves for a pod: the overhead plus the larger
// of two amounts. The first is the sum of all containers. The second is the largest init container
// together with the sidecars started before it.
func demandOf(spec *corev1.PodSpec) corev1.ResourceList {
	running, sidecars, starting := corev1.ResourceList{}, corev1.ResourceList{}, corev1.ResourceList{}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(sidecars, c.Resources.Requests)
			raise(starting, sidecars)
			continue
		}
		step := sidecars.DeepCopy()
		add(step, c.Resources.Requests)
		raise(starting, step)
	}
	for i := range spec.Containers {
		add(running, spec.Containers[i].Resources.Requests)
	}
	add(running, sidecars)
	raise(running, starting)
	if spec.Resources != nil {
		for name, amount := range spec.Resources.Requests {
			running[name] = amount.DeepCopy()
		}
	}
	add(running, spec.Overhead)
	return running
}

func add(sum, more corev1.ResourceList) {
	for name, amount := range more {
		total := sum[name]
		total.Add(amount)
		sum[name] = total
	}
}

func raise(most, other corev1.ResourceList) {
	for name, amount := range other {
		if now := most[name]; amount.Cmp(now) > 0 {
			most[name] = amount.DeepCopy()
		}
	}
}

func subtract(list, less corev1.ResourceList) corev1.ResourceList {
	out := list.DeepCopy()
	for name, amount := range less {
		left := out[name]
		left.Sub(amount)
		out[name] = left
	}
	return out
}

// fits reports whether usage is within a grant. A resource that the grant does not name is not
// granted.
func fits(used, granted corev1.ResourceList) bool {
	for name, amount := range used {
		if amount.Cmp(granted[name]) > 0 {
			return false
		}
	}
	return true
}

func words(list corev1.ResourceList) string {
	text := list.Cpu().String() + " CPU, " + list.Memory().String()
	for name, amount := range list {
		if name != corev1.ResourceCPU && name != corev1.ResourceMemory {
			text += fmt.Sprintf(", %s %s", amount.String(), name)
		}
	}
	return text
}

// mostOf returns the largest CPU usage of a consumer since the last forgetMost.
func (o *observer) mostOf(consumer string) resource.Quantity {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.most[consumer]
}

// excessOf returns how long a consumer has exceeded its grant, 0 if it does not, and how many pods
// it runs.
func (o *observer) excessOf(consumer string) (over time.Duration, pods int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if since, exceeds := o.overSince[consumer]; exceeds {
		over = o.now().Sub(since)
	}
	_, _, names := o.usage(consumer)
	return over, len(names)
}

// forgetMost starts a new measurement of the largest usage.
func (o *observer) forgetMost() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.most)
}

// verify fails the test if a consumer ever exceeded the bounds of E1. It first waits until a present
// excess has ended or lasts too long.
func (o *observer) verify(t testing.TB) {
	t.Helper()
	_ = e2e.Await(context.Background(), overFor+time.Second, func(context.Context) (string, error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		if len(o.overSince) == 0 {
			return "", nil
		}
		return "the excess to end", nil
	}) // judge records an excess that lasts
	o.mu.Lock()
	defer o.mu.Unlock()
	for consumer, most := range o.most {
		t.Logf("observed %d changes of pods; %s used at most %s CPU", o.events, consumer, most.String())
	}
	t.Logf("the longest excess lasted %s", o.longest.Round(time.Millisecond))
	for _, v := range o.violations {
		t.Errorf("E1: %s", v)
	}
}
