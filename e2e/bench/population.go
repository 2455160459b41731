package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
	restclientwatch "k8s.io/client-go/rest/watch"
)

//go:embed samples
var samples embed.FS

// heartbeat is how often a kubelet writes the status of its node if the status does not change.
const heartbeat = 5 * time.Minute

// unbound is the field selector with which clients watch pods that have no node yet.
const unbound = "spec.nodeName=,status.phase=Pending"

// population simulates the nodes and pods of a large cluster. It passes all other requests to an API server. Objects
// are generated when they are read, and never stored. It serves streaming lists in protobuf, as clients of
// Kubernetes 1.35 request them.
type population struct {
	nodes, pods int
	// rate is the number of pod events per second.
	rate int
	rest http.Handler

	pod  corev1.Pod
	node corev1.Node
}

func newPopulation(s settings, rest http.Handler) (*population, error) {
	p := &population{nodes: s.nodes, pods: s.pods, rate: s.podEvents, rest: rest}
	for name, into := range map[string]any{"pod": &p.pod, "node": &p.node} {
		text, err := samples.ReadFile("samples/" + name + ".json")
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(text, into); err != nil {
			return nil, fmt.Errorf("sample of a %s: %w", name, err)
		}
	}
	return p, nil
}

// kind describes the objects at one path.
type kind struct {
	count int
	// object returns the i-th object of the initial list.
	object func(i int) runtime.Object
	// event returns the k-th event.
	event func(k int) watch.Event
	// every is the interval between events.
	every time.Duration
	// marker returns the object of the bookmark event that ends the initial list.
	marker func(meta metav1.ObjectMeta) runtime.Object
}

func (p *population) kind(path string, query url.Values) (kind, bool) {
	switch path {
	case "/api/v1/pods":
		pods := kind{
			p.pods, func(i int) runtime.Object { return p.podAt(i, 0) }, p.podEvent, time.Second / time.Duration(p.rate),
			func(meta metav1.ObjectMeta) runtime.Object { return &corev1.Pod{ObjectMeta: meta} },
		}
		if query.Get("fieldSelector") == unbound {
			pods.count, pods.event, pods.every = 0, p.unboundEvent, 2*pods.every
		}
		return pods, true
	case "/api/v1/nodes":
		return kind{
			p.nodes, func(i int) runtime.Object { return p.nodeAt(i) }, p.nodeEvent, heartbeat / time.Duration(p.nodes),
			func(meta metav1.ObjectMeta) runtime.Object { return &corev1.Node{ObjectMeta: meta} },
		}, true
	}
	return kind{}, false
}

// ServeHTTP implements http.Handler. It passes requests with a label selector to the API server, because no
// simulated object has labels that clients select.
func (p *population) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	k, ours := p.kind(r.URL.Path, query)
	if !ours || query.Get("labelSelector") != "" {
		p.rest.ServeHTTP(w, r)
		return
	}
	if query.Get("watch") != "true" || !strings.Contains(r.Header.Get("Accept"), runtime.ContentTypeProtobuf) {
		http.Error(w, "these are told in a stream of protobuf alone", http.StatusNotAcceptable)
		return
	}
	ctx := r.Context()
	if seconds, err := strconv.Atoi(query.Get("timeoutSeconds")); err == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(seconds)*time.Second)
		defer cancel()
	}
	told, err := strconv.Atoi(query.Get("resourceVersion"))
	if err != nil {
		told = firstVersion
	}
	w.Header().Set("Content-Type", runtime.ContentTypeProtobuf+";stream=watch")
	out := newStream(w)
	if query.Get("sendInitialEvents") == "true" {
		told = firstVersion
		if k.all(ctx, out) != nil {
			return // the client has gone
		}
	}
	k.follow(ctx, out, told-firstVersion)
}

// firstVersion is the resource version before the first event. Each event increments the version.
const firstVersion = 1

// all writes all objects as the initial list.
func (k kind) all(ctx context.Context, out *stream) error {
	for i := range k.count {
		if err := errors.Join(ctx.Err(), out.tell(watch.Event{Type: watch.Added, Object: k.object(i)})); err != nil {
			return err
		}
	}
	out.flush()
	return out.tell(watch.Event{Type: watch.Bookmark, Object: k.marker(metav1.ObjectMeta{
		ResourceVersion: strconv.Itoa(firstVersion), Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"},
	})})
}

// follow writes events at regular intervals. next is the number of the first event.
func (k kind) follow(ctx context.Context, out *stream, next int) {
	ticks := time.NewTicker(k.every)
	defer ticks.Stop()
	for ; ; next++ {
		out.flush()
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		event := k.event(next)
		event.Object.(metav1.Object).SetResourceVersion(strconv.Itoa(firstVersion + next + 1))
		if out.tell(event) != nil {
			return
		}
	}
}

// podEvent returns the k-th event of a sequence in which each pod in turn is replaced by a pod on another node. A
// replacement has four events: the old pod ends, it is deleted, the new pod is bound, and it runs.
func (p *population) podEvent(k int) watch.Event {
	i, generation := k/4%p.pods, k/4/p.pods
	switch k % 4 {
	case 0:
		pod := p.podAt(i, generation)
		pod.DeletionTimestamp = &pod.CreationTimestamp
		return watch.Event{Type: watch.Modified, Object: pod}
	case 1:
		return watch.Event{Type: watch.Deleted, Object: p.podAt(i, generation)}
	case 2:
		pod := p.podAt(i, generation+1)
		pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
		return watch.Event{Type: watch.Added, Object: pod}
	default:
		return watch.Event{Type: watch.Modified, Object: p.podAt(i, generation+1)}
	}
}

// unboundEvent returns the k-th event for a watch on pods without a node. Each new pod first appears without a node.
// When it is bound, it disappears from this watch.
func (p *population) unboundEvent(k int) watch.Event {
	i, generation := k/2%p.pods, k/2/p.pods
	pod := p.podAt(i, generation+1)
	pod.Spec.NodeName, pod.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	if k%2 == 0 {
		return watch.Event{Type: watch.Added, Object: pod}
	}
	return watch.Event{Type: watch.Deleted, Object: pod}
}

func (p *population) nodeEvent(k int) watch.Event {
	return watch.Event{Type: watch.Modified, Object: p.nodeAt(k % p.nodes)}
}

// podAt returns the i-th pod of the cluster. generation says how many times it was replaced.
func (p *population) podAt(i, generation int) *corev1.Pod {
	pod := p.pod.DeepCopy()
	pod.Namespace = fmt.Sprintf("shop-%02d", i%40)
	pod.Name = fmt.Sprintf("%s%05x", pod.GenerateName, i+generation*p.pods)
	pod.UID = types.UID(fmt.Sprintf("%08x-0000-4000-8000-%012x", i, generation))
	pod.Spec.NodeName = nodeName((i + generation*7) % p.nodes)
	pod.Spec.Containers[0].Resources.Requests = requestsOf(i)
	pod.Status.ContainerStatuses[0].Resources.Requests = requestsOf(i)
	pod.Status.ContainerStatuses[0].AllocatedResources = requestsOf(i)
	return pod
}

// requestsOf returns the resources that the i-th pod requests: 0.05 to 1 core, and 64 MiB to 4 GiB.
func requestsOf(i int) corev1.ResourceList {
	random := rand.New(rand.NewPCG(1, uint64(i)))
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewMilliQuantity(50*(1+random.Int64N(20)), resource.DecimalSI),
		corev1.ResourceMemory: *resource.NewQuantity(64<<20*(1+random.Int64N(64)), resource.BinarySI),
	}
}

func (p *population) nodeAt(i int) *corev1.Node {
	node := p.node.DeepCopy()
	node.Name = nodeName(i)
	node.UID = types.UID(fmt.Sprintf("%08x-0000-4000-9000-000000000000", i))
	node.Labels[corev1.LabelHostname] = node.Name
	return node
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// stream writes the events of a watch.
type stream struct {
	*restclientwatch.Encoder
	response http.ResponseWriter
}

func newStream(w http.ResponseWriter) *stream {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	frames := info.StreamSerializer.Framer.NewFrameWriter(w)
	objects := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion)
	return &stream{restclientwatch.NewEncoder(streaming.NewEncoder(frames, info.StreamSerializer.Serializer), objects), w}
}

func (s *stream) tell(e watch.Event) error { return s.Encode(&e) }

func (s *stream) flush() { _ = http.NewResponseController(s.response).Flush() } // if the client has gone, the next write fails
