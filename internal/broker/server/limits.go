package server

import (
	"cmp"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/access"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Limits per cluster, where Options leave them open.
const (
	// defaultRate is in requests a second.
	defaultRate rate.Limit = 50

	defaultBurst    = 100
	defaultInFlight = 64
	// maxClients bounds memory. A client that is dropped for want of room starts
	// again with a full burst.
	maxClients = 8192
)

// limits keep one cluster from taking the broker away from the others.
type limits struct {
	// noun is what callers are told that they are.
	noun     string
	rate     rate.Limit
	burst    int
	inFlight int
	room     int
	// total bounds all callers together; nil where they are known and few.
	total *rate.Limiter

	// set are the limits that an administrator sets; nil where nobody can. What it
	// leaves open is as above.
	set func() access.Limits

	// mu guards the following.
	mu      sync.Mutex
	clients map[string]*client
}

type client struct {
	limiter *rate.Limiter
	running int
	// lines bounds the log; suppressed counts the requests without a line since the last.
	lines      *rate.Limiter
	suppressed int
}

func newLimits(r rate.Limit, burst int) *limits {
	return &limits{noun: "cluster", rate: r, burst: burst, inFlight: defaultInFlight, room: maxClients, clients: map[string]*client{}}
}

// inForce are the limits of every caller now.
func (l *limits) inForce() (perSecond rate.Limit, burst, inFlight int) {
	var set access.Limits
	if l.set != nil {
		set = l.set()
	}
	return cmp.Or(rate.Limit(set.PerSecond), l.rate), cmp.Or(set.Burst, l.burst), cmp.Or(set.InFlight, l.inFlight)
}

// admit lets a request of caller in; it has ended when done is called.
func (l *limits) admit(caller string, now time.Time) (done func(), err error) {
	perSecond, burst, inFlight := l.inForce()
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.client(caller, now)
	if c.running >= inFlight {
		return nil, tooMany("inFlight", time.Second, "%s %q has %d requests under way, the most it may have: wait for their answers", l.noun, caller, c.running)
	}
	c.bound(perSecond, burst, now)
	if !c.limiter.AllowN(now, 1) {
		missing := 1 - c.limiter.TokensAt(now)
		wait := time.Duration(missing / float64(perSecond) * float64(time.Second))
		return nil, tooMany("rate", wait, "%s %q asks more often than %v times a second: ask less often", l.noun, caller, float64(perSecond))
	}
	if l.total != nil && !l.total.AllowN(now, 1) {
		return nil, tooMany("", time.Second, "too many ask at once: ask again")
	}
	c.running++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.running--
	}, nil
}

// bound has limits that were changed hold from now on.
func (c *client) bound(perSecond rate.Limit, burst int, now time.Time) {
	if c.limiter.Limit() != perSecond {
		c.limiter.SetLimitAt(now, perSecond)
	}
	if c.limiter.Burst() != burst {
		c.limiter.SetBurstAt(now, burst)
	}
}

// client needs mu.
func (l *limits) client(caller string, now time.Time) *client {
	if c, ok := l.clients[caller]; ok {
		return c
	}
	if len(l.clients) >= l.room {
		l.sweep(now)
	}
	perSecond, burst, _ := l.inForce()
	c := &client{limiter: rate.NewLimiter(perSecond, burst), lines: rate.NewLimiter(logRate, logBurst)}
	l.clients[caller] = c
	return c
}

// sweep forgets those that have nothing to remember, or, if all have, any one.
func (l *limits) sweep(now time.Time) {
	for id, c := range l.clients {
		if c.running == 0 && c.limiter.TokensAt(now) >= float64(c.limiter.Burst()) {
			delete(l.clients, id)
		}
	}
	for id := range l.clients {
		if len(l.clients) < l.room {
			return
		}
		delete(l.clients, id)
	}
}

func tooMany(figure string, wait time.Duration, format string, args ...any) error {
	refusal := fault.New(fault.TooManyRequests, format, args...)
	refusal.RetryAfter, refusal.Figure = wait, figure
	return refusal
}
