package reach

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// longestMessage is the longest message, in bytes, that the broker accepts in a result.
	longestMessage = 256
	// mostShut is how many clusters the map shut may hold. The broker remembers fewer results than
	// that for each cluster.
	mostShut = 256
)

// survey holds the results of the probes that the broker asked for.
type survey struct {
	// found holds the results that the broker has not received yet, by cluster.
	found map[string]v1.Link
	// shut holds the clusters whose latest probe failed.
	shut map[string]bool
}

func newSurvey() survey { return survey{found: map[string]v1.Link{}, shut: map[string]bool{}} }

// ProbePeers schedules probes of peers. Peers of an earlier call that still wait for their probe are
// dropped.
func (s *Scout) ProbePeers(peers []v1.Peer) {
	s.mu.Lock()
	s.peers = slices.Clone(peers)
	s.mu.Unlock()
	s.wakeWorkers()
}

// Unreported returns the results that the broker has not received yet.
func (s *Scout) Unreported() []v1.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.survey.found))
}

// MarkReported removes the given results, which the broker has received. It keeps a result that was
// replaced by a newer one meanwhile.
func (s *Scout) MarkReported(links []v1.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range links {
		if s.survey.found[l.ClusterID] == l {
			delete(s.survey.found, l.ClusterID)
		}
	}
}

// Changed returns a channel that receives a value when a peer has become unreachable, or reachable
// again. A peer counts as reachable before its first probe. The channel must have only one reader.
func (s *Scout) Changed() <-chan struct{} { return s.news }

func (s *Scout) surveyPeer(ctx context.Context, peer v1.Peer) {
	if !s.pauseFor(ctx, rand.N(spread)) {
		return
	}
	roundTrip, err := s.dialTwice(ctx, peer.EndpointURL)
	if err == nil && s.through != nil {
		roundTrip, err = s.measureTunnel(ctx, peer.ClusterID, roundTrip)
	}
	if ctx.Err() == nil {
		s.noteResult(peer, roundTrip, err)
	}
}

func (s *Scout) noteResult(p v1.Peer, roundTrip time.Duration, err error) {
	l := v1.Link{ClusterID: p.ClusterID, EndpointURL: p.EndpointURL, Reachable: err == nil}
	if err == nil {
		l.RoundTripMicroseconds = roundTrip.Microseconds()
	} else {
		l.Message = message.Clip(err.Error(), longestMessage)
	}
	s.mu.Lock()
	s.survey.found[p.ClusterID] = l
	changed := s.survey.shut[p.ClusterID] == l.Reachable
	switch {
	case l.Reachable:
		delete(s.survey.shut, p.ClusterID)
	case len(s.survey.shut) >= mostShut:
		clear(s.survey.shut) // the next failure of each of these clusters is reported as news again
		fallthrough
	default:
		s.survey.shut[p.ClusterID] = true
	}
	s.mu.Unlock()
	if !changed {
		return
	}
	select {
	case s.news <- struct{}{}:
	default:
	}
}
