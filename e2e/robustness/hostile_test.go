package robustness

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/settings"
	"github.com/mehdiazizian/liqo-resource-broker/internal/runtest"
)

const (
	// hostileBytes is the total size of one member's requests.
	hostileBytes = 200 << 20
	// hostileCallers is the number of concurrent senders. hostileConnections is the number of additional connections.
	hostileCallers     = 32
	hostileConnections = 300
	// mostMemory is the limit of the broker's memory at any time.
	mostMemory = 256 << 20
	// honestCalls is the number of calls before the attack, for comparison.
	honestCalls = 60
)

// TestHostileMemberDoesNotAffectOthers sends 200 MB of expensive requests from one member. The broker stays within
// its memory limit, the journal grows by no more than the member's budget, and the calls of others succeed.
func TestHostileMemberDoesNotAffectOthers(t *testing.T) {
	s := newSite(t)
	s.start(1, "GOGC=100")
	honest := []*caller{s.caller("rome"), s.caller("oslo")}
	calm := s.work(honest, func(done int) bool { return done >= honestCalls })
	before := s.journalBytes()

	a := &attack{s: s, http: &http.Client{Transport: s.roundTripper("evil")}, statuses: map[int]int{}}
	ctx, stop := context.WithTimeout(t.Context(), 5*patience)
	defer stop()
	var hostile sync.WaitGroup
	for i := range hostileCallers {
		hostile.Go(func() { a.run(ctx, uint64(i)) })
	}
	for range hostileConnections {
		hostile.Go(func() { a.dawdle(ctx) })
	}
	busy := s.work(honest, func(done int) bool { return a.sent.Load() >= hostileBytes && done >= honestCalls || ctx.Err() != nil })
	stop()
	hostile.Wait()

	if sent := a.sent.Load(); sent < hostileBytes {
		t.Errorf("%d MB were sent, want %d", sent>>20, hostileBytes>>20)
	}
	memory, grown := s.peakMemory(), s.journalBytes()-before
	t.Logf("answers to %d MB: %v; peak memory %d MiB; journal grew by %d KiB; p99 of others %s, %s before: %.2f times",
		a.sent.Load()>>20, a.statuses, memory>>20, grown>>10, p99(busy), p99(calm), p99(busy).Seconds()/p99(calm).Seconds())
	if memory > mostMemory {
		t.Errorf("the broker had %d MiB of memory, want %d at most", memory>>20, mostMemory>>20)
	}
	// Each call of an honest member adds about 4 KiB.
	if most := int(settings.Default().Budget.JournalPerHour) + len(busy)*4<<10; grown > most {
		t.Errorf("the journal grew by %d bytes, want %d at most", grown, most)
	}
	s.defects.report(t)
}

// work makes honest members reserve and release until enough returns true. It returns the duration of each call; all
// must succeed.
func (s *site) work(callers []*caller, enough func(done int) bool) []time.Duration {
	var (
		mu      sync.Mutex
		took    []time.Duration
		working sync.WaitGroup
	)
	for _, c := range callers {
		working.Go(func() {
			for {
				mu.Lock()
				over := enough(len(took))
				mu.Unlock()
				if over {
					return
				}
				began := time.Now()
				key := fmt.Sprintf("%s-%d", c.id, began.UnixNano())
				if a, err := c.reserve(s.t.Context(), key, slots(1)); err != nil || a.status != http.StatusOK {
					s.defects.note("%s cannot reserve: %v %+v", c.id, err, a)
					return
				}
				reserved := time.Since(began)
				if a, err := c.release(s.t.Context(), key); err != nil || a.status != http.StatusOK {
					s.defects.note("%s cannot release: %v %+v", c.id, err, a)
					return
				}
				mu.Lock()
				took = append(took, reserved)
				mu.Unlock()
			}
		})
	}
	working.Wait()
	return took
}

func p99(took []time.Duration) time.Duration {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return sorted[len(sorted)*99/100]
}

// peakMemory returns the peak memory of the broker's process from the kernel.
func (s *site) peakMemory() int {
	s.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.replicas[0].Pid()))
	s.check(err)
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.Atoi(strings.Fields(text)[0])
			s.check(err)
			return kib << 10
		}
	}
	s.t.Fatal("the kernel does not report the peak memory")
	return 0
}

// journalBytes returns the size of all ConfigMaps in the broker's namespace.
func (s *site) journalBytes() int {
	s.t.Helper()
	var list corev1.ConfigMapList
	s.check(s.List(s.t.Context(), &list, client.InNamespace(namespace)))
	sum := 0
	for i := range list.Items {
		for _, v := range list.Items[i].Data {
			sum += len(v)
		}
		for _, v := range list.Items[i].BinaryData {
			sum += len(v)
		}
	}
	return sum
}

// attack sends expensive requests as one hostile member, and counts the answers by status.
type attack struct {
	s    *site
	http *http.Client
	sent atomic.Int64
	// sequence is a counter for names that must differ in every request.
	sequence atomic.Int64

	mu       sync.Mutex
	statuses map[int]int
}

// hostileCall is one request of an attack.
type hostileCall struct {
	method, path, key string
	body              []byte
}

func (a *attack) run(ctx context.Context, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 15))
	kinds := []func(*rand.Rand) hostileCall{a.advertise, a.announce, a.brackets, a.emptyObjects, a.wish, a.hold, a.shut, a.message, a.poll, a.misreport}
	for ctx.Err() == nil {
		a.send(ctx, kinds[random.IntN(len(kinds))](random))
	}
}

func (a *attack) send(ctx context.Context, c hostileCall) {
	body := &counted{Reader: bytes.NewReader(c.body), sent: &a.sent}
	request, err := http.NewRequestWithContext(ctx, c.method, a.s.replicas[0].url+c.path, body)
	if err != nil {
		a.s.defects.note("%v", err)
		return
	}
	if request.ContentLength = int64(len(c.body)); len(c.body) == 0 {
		request.Body = nil
	} else {
		request.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		request.Header.Set("Idempotency-Key", c.key)
	}
	status := 0
	if response, err := a.http.Do(request); err == nil {
		_, _ = io.Copy(io.Discard, response.Body) // the broker may also cut the connection
		_ = response.Body.Close()
		status = response.StatusCode
	}
	if status >= http.StatusInternalServerError && status != http.StatusServiceUnavailable {
		a.s.defects.note("%s %s is answered %d", c.method, c.path, status)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.statuses[status]++
}

// counted counts the bytes read from a body.
type counted struct {
	io.Reader
	sent *atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.sent.Add(int64(n))
	return n, err
}

func (a *attack) post(path string, body any) hostileCall {
	raw, err := json.Marshal(body)
	a.s.check(err)
	return hostileCall{http.MethodPost, path, fmt.Sprintf("hostile-%d", a.sequence.Add(1)), raw}
}

// advertise names new resources and thousands of placements each time.
func (a *attack) advertise(random *rand.Rand) hostileCall {
	n := a.sequence.Add(1)
	whole := v1.Amounts{"cpu": fmt.Sprint(100 + n), "memory": "1Ti"}
	for i := range 60 {
		whole[fmt.Sprintf("evil-%d.example.com/r%d", n, i)] = "1"
	}
	adv := v1.Advertisement{ClusterID: "evil", Epoch: 1, Sequence: n, Capacity: whole, Allocatable: whole, Allocated: v1.Amounts{"cpu": fmt.Sprint(random.IntN(100))}}
	for i := range 4096 {
		adv.Usage = append(adv.Usage, v1.Usage{Reservation: fmt.Sprintf("res-%010d", random.IntN(1e9)+i), Placement: 1, Used: v1.Amounts{"cpu": "1m", "memory": fmt.Sprint(random.IntN(1e6)), "pods": "1"}})
	}
	return a.post("/api/v1/advertisements", adv)
}

// announce invents placements for other clusters.
func (a *attack) announce(random *rand.Rand) hostileCall {
	var h v1.Holdings
	h.Consumes = []v1.ConsumedReservation{}
	for range 2048 {
		h.Provides = append(h.Provides, v1.ProvidedPlacement{
			Reservation: fmt.Sprintf("res-%010d", random.IntN(1e9)), Placement: int32(1 + random.IntN(100)),
			ConsumerID: []string{"rome", "oslo", "nobody"}[random.IntN(3)], Resources: v1.Amounts{"cpu": "1m"}, Acknowledged: true,
		})
	}
	return a.post("/api/v1/holdings", h)
}

// brackets and emptyObjects use many times their size once they are parsed.
func (a *attack) brackets(*rand.Rand) hostileCall {
	return hostileCall{http.MethodPost, "/api/v1/holdings", "", bytes.Repeat([]byte("["), 1<<20)}
}

func (a *attack) emptyObjects(*rand.Rand) hostileCall {
	body := append([]byte(`{"provides":[],"consumes":[`), bytes.Repeat([]byte("{},"), 1<<18)...)
	return hostileCall{http.MethodPost, "/api/v1/holdings", "", append(body, "{}]}"...)}
}

// wish requests impossible capacity with as many constraints as allowed, and queues for it.
func (a *attack) wish(random *rand.Rand) hostileCall {
	req := v1.ReservationRequest{
		Resources: v1.Amounts{"cpu": "1000000", "memory": "1Gi"}, QueuePolicy: v1.ReservationRequestQueuePolicyQueue, Constraints: &v1.Constraints{},
	}
	for range 64 {
		req.Constraints.ExcludeClusters = append(req.Constraints.ExcludeClusters, fmt.Sprintf("no-cluster-%d", random.IntN(1e9)))
	}
	return a.post("/api/v1/reservations", req)
}

func (a *attack) hold(*rand.Rand) hostileCall {
	return a.post("/api/v1/quotes", v1.ReservationRequest{Resources: slots(1).Resources, HoldSeconds: 1})
}

func (a *attack) shut(*rand.Rand) hostileCall {
	return hostileCall{http.MethodDelete, fmt.Sprintf("/api/v1/reservations/unknown-%d", a.sequence.Add(1)), "", nil}
}

func (a *attack) message(random *rand.Rand) hostileCall {
	return a.post("/api/v1/messages", v1.Message{To: []string{"rome", "nobody"}[random.IntN(2)], Slot: fmt.Sprint(a.sequence.Add(1)), Body: make([]byte, 48<<10)})
}

func (a *attack) poll(*rand.Rand) hostileCall {
	return hostileCall{http.MethodGet, "/api/v1/instructions?wait=1", "", nil}
}

func (a *attack) misreport(random *rand.Rand) hostileCall {
	return a.post(fmt.Sprintf("/api/v1/reservations/res-%010d/status", random.IntN(1e9)), v1.StatusReport{
		Placement: 1, Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateGone, Message: strings.Repeat("x", 1024),
	})
}

// dawdle opens one connection after the other and sends bodies that never end.
func (a *attack) dawdle(ctx context.Context) {
	config := a.s.tlsFor("evil")
	config.NextProtos = []string{"http/1.1"}
	at, err := url.Parse(a.s.replicas[0].url)
	if err != nil {
		a.s.defects.note("%v", err)
		return
	}
	for ctx.Err() == nil {
		c, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", at.Host)
		if err == nil {
			_, err = io.WriteString(c, "POST /api/v1/holdings HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n{")
		}
		for err == nil && ctx.Err() == nil {
			runtest.Pause(ctx, 500*time.Millisecond)
			_, err = io.WriteString(c, " ")
		}
		if c != nil {
			_ = c.Close()
		}
		runtest.Pause(ctx, time.Second)
	}
}
