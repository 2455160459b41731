package server

import (
	"cmp"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Default limits of a cluster.
const (
	// defaultRate is in requests per second.
	defaultRate rate.Limit = 50

	defaultBurst    = 100
	defaultInFlight = 64
	// maxClients is how many callers without a request in flight are remembered, to bound memory. A caller that was
	// forgotten starts again with a full burst.
	maxClients = 8192
)

// limits keeps one caller from taking the broker's capacity away from the others.
type limits struct {
	// noun is the word for a caller in error messages.
	noun     string
	rate     rate.Limit
	burst    int
	inFlight int
	bodyRate rate.Limit
	room     int
	// total limits all callers together. It is nil if callers are authenticated.
	total *rate.Limiter

	// set returns the limits that an administrator has set; a zero field means the default. It is nil on a listener
	// for which an administrator cannot set limits.
	set func() access.Limits

	// mu guards the following field.
	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	limiter *rate.Limiter
	// bodies limits the bytes of request bodies.
	bodies  *rate.Limiter
	running int
	// refusals is when each kind of refusal was last logged.
	refusals map[string]time.Time
}

func newLimits(r rate.Limit, burst int) *limits {
	return &limits{noun: "cluster", rate: r, burst: burst, inFlight: defaultInFlight, bodyRate: bodyRate, room: maxClients, clients: map[string]*client{}}
}

func (l *limits) inForce() (perSecond rate.Limit, burst, inFlight int) {
	var set access.Limits
	if l.set != nil {
		set = l.set()
	}
	return cmp.Or(rate.Limit(set.PerSecond), l.rate), cmp.Or(set.Burst, l.burst), cmp.Or(set.InFlight, l.inFlight)
}

// admitRequest counts a request of caller as running until done is called, or refuses it.
func (l *limits) admitRequest(caller string, now time.Time) (done func(), err error) {
	perSecond, burst, inFlight := l.inForce()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clientOf(caller)
	setting := ""
	if l.set != nil {
		setting = "; BrokerConfig.spec.rateLimits sets it"
	}
	if c.running >= inFlight {
		return nil, fault.Over("inFlight", time.Second, "%s %q has %d requests in flight, which is the maximum: wait for their answers%s", l.noun, caller, c.running, setting)
	}
	c.limiter.SetLimitAt(now, perSecond)
	c.limiter.SetBurstAt(now, burst)
	if !c.limiter.AllowN(now, 1) {
		missing := 1 - c.limiter.TokensAt(now)
		wait := time.Duration(missing / float64(perSecond) * float64(time.Second))
		return nil, fault.Over("rate", wait, "%s %q exceeds %v requests per second: send fewer%s", l.noun, caller, float64(perSecond), setting)
	}
	if l.total != nil && !l.total.AllowN(now, 1) {
		return nil, fault.Over("", time.Second, "too many requests from all callers: retry")
	}
	c.running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.running--
	}, nil
}

// admitBody takes the size of a body from the bytes per second of caller. If they are exceeded, it takes nothing and
// returns an error.
func (l *limits) admitBody(caller string, size int64, now time.Time) error {
	if size <= freeBody {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.clientOf(caller).bodies.ReserveN(now, int(size))
	wait := taken.DelayFrom(now)
	if wait == 0 {
		return nil
	}
	taken.CancelAt(now)
	return fault.Over("bodyRate", wait, "%s %q sends more than %d bytes of request bodies per second: send fewer or smaller requests",
		l.noun, caller, int64(l.bodyRate))
}

// clientOf returns the counters of a caller. mu must be locked.
func (l *limits) clientOf(caller string) *client {
	if c, ok := l.clients[caller]; ok {
		return c
	}
	if len(l.clients) >= l.room {
		maps.DeleteFunc(l.clients, func(_ string, c *client) bool { return c.running == 0 })
	}
	perSecond, burst, _ := l.inForce()
	c := &client{limiter: rate.NewLimiter(perSecond, burst), bodies: rate.NewLimiter(l.bodyRate, bodyBurst)}
	l.clients[caller] = c
	return c
}

// logAgain is the time after which the same refusal is logged again. Agents repeat refused requests every second.
// Metrics count the requests that are not logged.
const logAgain = time.Minute

// isRepeated reports whether the same refusal of caller was logged less than logAgain ago. If not, it notes that it is
// logged now. There must be few different refusals, because limits remembers each of them for each caller.
func (l *limits) isRepeated(caller, refusal string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.clientOf(caller)
	if logged, known := c.refusals[refusal]; known && now.Sub(logged) < logAgain {
		return true
	}
	if c.refusals == nil {
		c.refusals = map[string]time.Time{}
	}
	c.refusals[refusal] = now
	return false
}
