package robustness

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// slot is a resource that only the clusters without agents lend. These clusters have enough cpu and memory for all
// slots, but too little for a request of a cluster with an agent.
const slot = "example.com/slot"

func clusterName(i int) string { return fmt.Sprintf("lender-%d", i) }

// offerSlots writes the manifests of five clusters. They are never stale.
func (s *site) offerSlots() {
	s.t.Helper()
	config := &brokerv1alpha1.BrokerConfig{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	config.Spec.StaleThreshold = &metav1.Duration{Duration: 24 * time.Hour}
	s.check(client.IgnoreAlreadyExists(s.Create(s.t.Context(), config)))
	for i := range clusters {
		amounts := corev1.ResourceList{
			slot:                  *resource.NewQuantity(capacity, resource.DecimalSI),
			corev1.ResourceCPU:    *resource.NewMilliQuantity(capacity, resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(capacity<<20, resource.BinarySI),
		}
		adv := &brokerv1alpha1.ClusterAdvertisement{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: clusterName(i)}}
		adv.Spec.ClusterID = clusterName(i)
		adv.Spec.Resources.Capacity = amounts
		s.check(s.Create(s.t.Context(), adv))
	}
	for i := range clusters {
		for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
			adv := &brokerv1alpha1.ClusterAdvertisement{}
			err := s.Get(s.t.Context(), client.ObjectKey{Namespace: namespace, Name: clusterName(i)}, adv)
			if err == nil && adv.Status.Active {
				break
			}
			if time.Now().After(deadline) {
				s.t.Fatalf("cluster %s is not active: %v, %+v", clusterName(i), err, adv.Status)
			}
		}
	}
}

// traffic is the work of the eight clients.
type traffic struct {
	s       *site
	history *history
	stop    context.CancelFunc
	done    sync.WaitGroup
	callers []*caller

	mu sync.Mutex
	// grants are all reservations by key; ends are the keys that were released.
	grants map[string]string
	ends   map[string]bool
	// times holds, for each key, when it was first requested and when it was granted.
	times map[string]span
}

type span struct{ from, to time.Time }

func (s *site) traffic(random *rand.Rand, through func(*caller)) *traffic {
	ctx, stop := context.WithCancel(s.t.Context())
	w := &traffic{s: s, history: newHistory(), stop: stop, grants: map[string]string{}, ends: map[string]bool{}, times: map[string]span{}}
	for i := range clients {
		c := s.caller(fmt.Sprintf("client-%d", i))
		if through != nil {
			through(c)
		}
		w.callers = append(w.callers, c)
		one := &trafficClient{traffic: w, caller: c, number: i, random: rand.New(rand.NewPCG(random.Uint64(), 0))}
		w.done.Go(func() { one.run(ctx) })
	}
	return w
}

// end lets every client finish what it has begun, so that no outcome is open.
func (w *traffic) end() {
	w.stop()
	w.done.Wait()
}

func (w *traffic) note(key, name string, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known, ok := w.grants[key]; ok && known != name {
		w.s.defects.note("key %s has the reservations %s and %s", key, known, name)
	}
	w.grants[key] = name
	w.times[key] = span{asked, time.Now()}
}

func (w *traffic) noteEnd(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ends[key] = true
}

// trafficClient is one of the clients. Its calls are sequential.
type trafficClient struct {
	*traffic
	caller *caller
	number int
	random *rand.Rand
	keys   [slotsEach]string
	held   [slotsEach]bool
	count  int
}

func (c *trafficClient) run(ctx context.Context) {
	// Calls in progress are completed.
	calls := context.WithoutCancel(ctx)
	for ctx.Err() == nil {
		if err := c.turn(calls); err != nil {
			c.s.defects.note("client %d: %v", c.number, err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(20+c.random.IntN(160)) * time.Millisecond):
		}
	}
}

func (c *trafficClient) turn(ctx context.Context) error {
	mine := c.random.IntN(slotsEach)
	switch {
	case c.held[mine] && c.random.IntN(3) == 0, !c.held[mine] && c.keys[mine] != "" && c.random.IntN(6) == 0:
		return c.read(ctx, mine)
	case c.held[mine]:
		return c.release(ctx, mine)
	case c.random.IntN(12) == 0:
		return c.releaseThenReserve(ctx)
	default:
		return c.reserve(ctx, mine)
	}
}

func (c *trafficClient) newKey() string {
	c.count++
	return fmt.Sprintf("client-%d.%06d", c.number, c.count)
}

func slots(n int8) v1.ReservationRequest {
	return v1.ReservationRequest{Resources: v1.Amounts{slot: fmt.Sprint(n), "cpu": "1m", "memory": "1Mi"}}
}

func (c *trafficClient) reserve(ctx context.Context, mine int) error {
	key, in := c.newKey(), call{reserve, c.number, mine, int8(1 + c.random.IntN(3))}
	asked, called := time.Now(), c.history.now()
	a, err := c.caller.reserve(ctx, key, slots(in.slots))
	if err != nil {
		return err
	}
	if a.status == http.StatusConflict && a.problem() == "NoCandidate" {
		c.history.add(in, called, outcome{none, refused}, c.history.now())
		return c.releaseRefused(ctx, key, in, called, asked)
	}
	r, out, err := grantOf(a)
	if err != nil {
		return fmt.Errorf("reserve %s: %w", key, err)
	}
	c.history.add(in, called, out, c.history.now())
	c.note(key, r.Name, asked)
	c.keys[mine], c.held[mine] = key, true
	return nil
}

// releaseRefused releases a refused key, because an earlier attempt that seemed lost may have been granted after the
// refusal. The history includes what it held meanwhile.
func (c *trafficClient) releaseRefused(ctx context.Context, key string, in call, called int64, asked time.Time) error {
	released := c.history.now()
	a, err := c.caller.release(ctx, key)
	if err != nil {
		return err
	}
	c.noteEnd(key)
	if a.status == http.StatusNoContent {
		return nil
	}
	r, out, err := grantOf(a)
	if err != nil {
		return fmt.Errorf("release refused %s: %w", key, err)
	}
	out.phase = granted
	now := c.history.now()
	c.note(key, r.Name, asked)
	c.history.add(in, called, out, now)
	c.history.add(call{release, in.client, in.mine, in.slots}, released, outcome{none, "Released"}, now)
	return nil
}

// grantOf decodes an answer with a granted reservation of slots. It returns an error for any other answer, and unless
// the reservation has exactly one placement.
func grantOf(a *answer) (*v1.Reservation, outcome, error) {
	var r v1.Reservation
	if a.status != http.StatusOK {
		return nil, outcome{}, fmt.Errorf("answer %d %s", a.status, a.body)
	}
	if err := a.read(&r); err != nil {
		return nil, outcome{}, err
	}
	if len(r.Placements) != 1 || !strings.HasPrefix(r.Placements[0].ClusterID, "lender-") {
		return nil, outcome{}, fmt.Errorf("reservation has placements %+v", r.Placements)
	}
	cluster := none
	for i := range clusters {
		if clusterName(i) == r.Placements[0].ClusterID {
			cluster = i
		}
	}
	return &r, outcome{int8(cluster), phase(r.Phase)}, nil
}

func (c *trafficClient) release(ctx context.Context, mine int) error {
	key, called := c.keys[mine], c.history.now()
	a, err := c.caller.release(ctx, key)
	if err != nil {
		return err
	}
	_, out, err := grantOf(a)
	if err != nil {
		return fmt.Errorf("release %s: %w", key, err)
	}
	c.history.add(call{release, c.number, mine, 0}, called, outcome{none, out.phase}, c.history.now())
	c.noteEnd(key)
	c.held[mine] = false
	return nil
}

func (c *trafficClient) read(ctx context.Context, mine int) error {
	key, called := c.keys[mine], c.history.now()
	a, err := c.caller.get(ctx, key)
	if err != nil {
		return err
	}
	_, out, err := grantOf(a)
	if err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	c.history.add(call{read, c.number, mine, 0}, called, out, c.history.now())
	return nil
}

// releaseThenReserve releases a new key and then requests with it. The broker must answer that the key is gone.
func (c *trafficClient) releaseThenReserve(ctx context.Context) error {
	key := c.newKey()
	a, err := c.caller.release(ctx, key)
	if err != nil {
		return err
	}
	if a.status != http.StatusNoContent {
		return fmt.Errorf("release of the new key %s: %d %s", key, a.status, a.body)
	}
	a, err = c.caller.reserve(ctx, key, slots(1))
	if err != nil {
		return err
	}
	if a.status != http.StatusGone {
		c.s.defects.note("key %s was given back, and reserved afterwards: %d %s", key, a.status, a.body)
	}
	return nil
}
