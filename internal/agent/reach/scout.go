package reach

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	// atOnce is how many endpoints are probed at the same time.
	atOnce = 4
	// spread is the longest random delay before a probe that the broker asked for. It keeps many
	// agents from connecting at the same moment.
	spread = 500 * time.Millisecond
	// again is how long a probe waits after a failed first attempt before it makes the second one.
	// An endpoint counts as unreachable only if both attempts fail.
	again = time.Second
)

// Scout probes the API servers of other clusters: first those of providers that this cluster is
// about to peer with, then those that the broker asked for.
type Scout struct {
	dial  func(ctx context.Context, endpoint string) (time.Duration, error)
	clock clock.Clock
	// through reports the state of the tunnel to a cluster; nil unless this agent connects networks.
	through Through
	// checked receives the name of each placement whose provider was probed.
	checked chan event.TypedGenericEvent[string]
	// news receives a value after a peer has become unreachable, or reachable again.
	news chan struct{}
	// more receives values that wake idle workers.
	more chan struct{}

	// mu protects the fields below.
	mu     sync.Mutex
	checks map[string]*check
	// urgent lists the placements whose providers must be probed. peers lists the clusters that the
	// broker asked about and that have not been probed yet.
	urgent []string
	peers  []v1.Peer
	survey survey
}

// Through returns the state of the tunnel that connects the networks of this cluster and another
// one. why says why the tunnel does not work, "" if it works. roundTrip is the round-trip time
// through a tunnel that works. known is false if there is no tunnel, or if its state is unknown.
type Through func(ctx context.Context, clusterID string) (roundTrip time.Duration, why string, known bool)

// Through makes the Scout also check the tunnel to each cluster whose API server answers. The
// Scout then reports the state of the tunnel instead of the state of the API server. Call Through
// before Start.
func (s *Scout) Through(tunnel Through) { s.through = tunnel }

// New returns a Scout for the cluster whose own API server has the given advertised endpoint.
func New(own string, c clock.Clock) *Scout { return newScout(newDialer(own, c.Now).dialEndpoint, c) }

func newScout(dial func(context.Context, string) (time.Duration, error), c clock.Clock) *Scout {
	return &Scout{
		dial: dial, clock: c,
		checked: make(chan event.TypedGenericEvent[string], 64), news: make(chan struct{}, 1), more: make(chan struct{}, atOnce),
		checks: map[string]*check{}, survey: newSurvey(),
	}
}

// Start runs probes until ctx ends.
func (s *Scout) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for s.runNextProbe(ctx) {
			}
		})
	}
	workers.Wait()
	return nil
}

// runNextProbe runs the next probe. If there is none, it waits until there may be one. It returns
// false once ctx has ended.
func (s *Scout) runNextProbe(ctx context.Context) bool {
	if probe := s.nextProbe(); probe != nil {
		probe(ctx)
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.more:
		return true
	}
}

// nextProbe returns the next probe, those of providers first; nil if there is none.
func (s *Scout) nextProbe() func(context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.urgent) > 0 {
		placement := s.urgent[0]
		s.urgent = s.urgent[1:]
		if c := s.checks[placement]; c != nil && !c.done {
			return func(ctx context.Context) { s.checkProvider(ctx, placement, c) }
		}
	}
	if len(s.peers) == 0 {
		return nil
	}
	peer := s.peers[0]
	s.peers = s.peers[1:]
	return func(ctx context.Context) { s.surveyPeer(ctx, peer) }
}

// dialTwice probes an endpoint, and once more if that fails.
func (s *Scout) dialTwice(ctx context.Context, endpoint string) (time.Duration, error) {
	roundTrip, err := s.dial(ctx, endpoint)
	if err != nil && s.pauseFor(ctx, again) {
		roundTrip, err = s.dial(ctx, endpoint)
	}
	return roundTrip, err
}

// measureTunnel returns the round-trip time through the tunnel to a cluster, or an error if the
// tunnel is down. The tunnel matters more than the API server, because pods use it. If there is no
// tunnel, measureTunnel returns dialled, the round-trip time to the API server.
func (s *Scout) measureTunnel(ctx context.Context, clusterID string, dialled time.Duration) (time.Duration, error) {
	roundTrip, why, known := s.through(ctx, clusterID)
	switch {
	case !known:
		return dialled, nil
	case why != "":
		return 0, errors.New(why)
	}
	return roundTrip, nil
}

func (s *Scout) pauseFor(ctx context.Context, d time.Duration) bool {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// wakeWorkers makes all idle workers look for probes.
func (s *Scout) wakeWorkers() {
	for range atOnce {
		select {
		case s.more <- struct{}{}:
		default:
			return
		}
	}
}

// check is a probe of the provider of one placement, and its result.
type check struct {
	endpoint string
	done     bool
	// why explains why the provider is unreachable; "" if it is reachable.
	why string
}

// Check returns why the provider of a placement is unreachable, or "" if it is reachable. The first
// call for an endpoint schedules a probe. Until the probe has finished, known is false; then
// Checked receives the placement.
func (s *Scout) Check(placement, endpoint string) (why string, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.checks[placement]
	if c == nil || c.endpoint != endpoint {
		s.checks[placement] = &check{endpoint: endpoint}
		s.urgent = append(s.urgent, placement)
		s.wakeWorkers()
		return "", false
	}
	return c.why, c.done
}

// Forget removes the result for a placement.
func (s *Scout) Forget(placement string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.checks, placement)
}

// Checked returns a channel of the names of placements whose probe has finished.
func (s *Scout) Checked() <-chan event.TypedGenericEvent[string] { return s.checked }

func (s *Scout) checkProvider(ctx context.Context, placement string, c *check) {
	_, err := s.dialTwice(ctx, c.endpoint)
	if ctx.Err() != nil {
		return
	}
	s.mu.Lock()
	c.done = true
	if err != nil {
		c.why = err.Error()
	}
	s.mu.Unlock()
	select {
	case s.checked <- event.TypedGenericEvent[string]{Object: placement}:
	case <-ctx.Done():
	}
}
