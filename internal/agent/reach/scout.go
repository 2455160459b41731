package reach

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/event"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

const (
	// atOnce is how many endpoints are dialled concurrently.
	atOnce = 4
	// spread is the longest random delay of a probe that the broker requested, so that many
	// agents do not dial at the same moment.
	spread = 500 * time.Millisecond
	// again is the pause before the second attempt. An endpoint counts as unreachable only
	// after both fail.
	again = time.Second
)

// Scout probes the API servers of other clusters: first those that this cluster is about to
// peer with, then those that the broker names. It keeps only results that were asked for.
type Scout struct {
	dial  func(ctx context.Context, endpoint string) (time.Duration, error)
	clock clock.Clock
	// through is nil unless networks are connected.
	through Through
	// checked carries the name of each placement whose provider was probed.
	checked chan event.TypedGenericEvent[string]
	// news receives after a peer became reachable or unreachable.
	news chan struct{}
	// more wakes idle workers.
	more chan struct{}

	// mu guards the following.
	mu     sync.Mutex
	checks map[string]*check
	// urgent are placements to probe; peers are the clusters named by the broker.
	urgent []string
	peers  []v1.Peer
	survey survey
}

// Through returns the round trip to a cluster through a tunnel between the two networks. why is
// the reason the tunnel does not work, or "". known is false if there is no tunnel or its state
// is unknown.
type Through func(ctx context.Context, clusterID string) (roundTrip time.Duration, why string, known bool)

// Through makes the Scout prefer the state of a tunnel to the result of dialling the API
// server. Call it before Start.
func (s *Scout) Through(tunnel Through) { s.through = tunnel }

// New creates a Scout for a cluster whose own API server is advertised at own.
func New(own string, c clock.Clock) *Scout { return newScout(newDialer(own, c.Now).dialEndpoint, c) }

func newScout(dial func(context.Context, string) (time.Duration, error), c clock.Clock) *Scout {
	return &Scout{
		dial: dial, clock: c,
		checked: make(chan event.TypedGenericEvent[string], 64), news: make(chan struct{}, 1), more: make(chan struct{}, atOnce),
		checks: map[string]*check{}, survey: newSurvey(),
	}
}

// Start probes until ctx ends.
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

// runNextProbe runs the next probe, or waits for one. It returns false when ctx is done.
func (s *Scout) runNextProbe(ctx context.Context) bool {
	if placement, c := s.nextCheck(); c != nil {
		_, err := s.dialTwice(ctx, c.endpoint)
		if ctx.Err() == nil {
			s.recordCheck(ctx, placement, c, err)
		}
		return ctx.Err() == nil
	}
	if peer, ok := s.nextPeer(); ok {
		if !s.pauseFor(ctx, rand.N(spread)) {
			return false
		}
		roundTrip, err := s.dialTwice(ctx, peer.EndpointURL)
		if err == nil && s.through != nil {
			roundTrip, err = s.measureTunnel(ctx, peer.ClusterID, roundTrip)
		}
		if ctx.Err() == nil {
			s.noteResult(peer, roundTrip, err)
		}
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-s.more:
		return true
	}
}

// dialTwice dials, and dials a second time before it returns a failure.
func (s *Scout) dialTwice(ctx context.Context, endpoint string) (time.Duration, error) {
	roundTrip, err := s.dial(ctx, endpoint)
	if err != nil && s.pauseFor(ctx, again) {
		roundTrip, err = s.dial(ctx, endpoint)
	}
	return roundTrip, err
}

// measureTunnel returns the round trip through the tunnel to a cluster, or an error if the tunnel is
// down. Without a tunnel it returns dialled, the round trip of the probe: pods use the tunnel if
// there is one, so its state matters more than that of the API server.
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

// wakeWorkers signals all workers to look for probes.
func (s *Scout) wakeWorkers() {
	for range atOnce {
		select {
		case s.more <- struct{}{}:
		default:
			return
		}
	}
}
