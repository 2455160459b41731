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
	// atOnce is how many are dialled at the same time.
	atOnce = 4
	// spread is up to how long a look waits that the broker asked for: agents that are
	// asked together do not all dial at the same moment.
	spread = 500 * time.Millisecond
	// again is after what pause one that did not answer is dialled a second time, before it
	// is said not to be reachable.
	again = time.Second
)

// Scout looks at the API servers of other clusters: at those that the broker names, and
// first of all at those that this cluster is about to peer with. It keeps nothing that it
// was not asked for.
type Scout struct {
	dial  func(ctx context.Context, endpoint string) (time.Duration, error)
	clock clock.Clock
	// through is nil where networks are not connected.
	through Through
	// checked carries the name of each placement whose provider was looked at.
	checked chan event.TypedGenericEvent[string]
	// news receives after a peer became reachable, or not reachable.
	news chan struct{}
	// more wakes workers that have nothing to do.
	more chan struct{}

	// mu guards the following.
	mu     sync.Mutex
	checks map[string]*check
	// urgent are placements, peers those that the broker asked for.
	urgent []string
	peers  []v1.Peer
	survey survey
}

// Through says how far a cluster is through a tunnel between the two networks, and why it
// is not reached, "" if it is; known is false where there is no tunnel, or it does not say.
type Through func(ctx context.Context, clusterID string) (roundTrip time.Duration, why string, known bool)

// Through has what a tunnel says go before what a connection to an API server took. It is
// called before Start.
func (s *Scout) Through(tunnel Through) { s.through = tunnel }

// New makes a Scout for a cluster with an API server of its own at the endpoint.
func New(own string, c clock.Clock) *Scout { return newScout(newDialer(own, c.Now).dial, c) }

func newScout(dial func(context.Context, string) (time.Duration, error), c clock.Clock) *Scout {
	return &Scout{
		dial: dial, clock: c,
		checked: make(chan event.TypedGenericEvent[string], 64), news: make(chan struct{}, 1), more: make(chan struct{}, atOnce),
		checks: map[string]*check{}, survey: newSurvey(),
	}
}

// Start looks until ctx ends.
func (s *Scout) Start(ctx context.Context) error {
	var workers sync.WaitGroup
	for range atOnce {
		workers.Go(func() {
			for s.work(ctx) {
			}
		})
	}
	workers.Wait()
	return nil
}

// work does the next thing, or waits for one. It returns false when ctx is done.
func (s *Scout) work(ctx context.Context) bool {
	if placement, c := s.nextCheck(); c != nil {
		_, err := s.look(ctx, c.endpoint)
		if ctx.Err() == nil {
			s.settle(ctx, placement, c, err)
		}
		return ctx.Err() == nil
	}
	if peer, ok := s.nextPeer(); ok {
		if !s.pause(ctx, rand.N(spread)) {
			return false
		}
		roundTrip, err := s.look(ctx, peer.EndpointURL)
		if err == nil && s.through != nil {
			roundTrip, err = s.tunnelled(ctx, peer.ClusterID, roundTrip)
		}
		if ctx.Err() == nil {
			s.note(peer, roundTrip, err)
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

// look dials, and dials again before it says that nobody answers.
func (s *Scout) look(ctx context.Context, endpoint string) (time.Duration, error) {
	roundTrip, err := s.dial(ctx, endpoint)
	if err != nil && s.pause(ctx, again) {
		roundTrip, err = s.dial(ctx, endpoint)
	}
	return roundTrip, err
}

// tunnelled is what pods see of the way to a cluster that answers: its API server alone
// serves none of them.
func (s *Scout) tunnelled(ctx context.Context, clusterID string, dialled time.Duration) (time.Duration, error) {
	roundTrip, why, known := s.through(ctx, clusterID)
	switch {
	case !known:
		return dialled, nil
	case why != "":
		return 0, errors.New(why)
	}
	return roundTrip, nil
}

func (s *Scout) pause(ctx context.Context, d time.Duration) bool {
	timer := s.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// wake has as many workers look for something to do as there may be things.
func (s *Scout) wake() {
	for range atOnce {
		select {
		case s.more <- struct{}{}:
		default:
			return
		}
	}
}
