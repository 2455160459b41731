package reach

import (
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// longestMessage is the API's limit for the message of a result.
	longestMessage = 256
	// mostShut bounds shut. The broker remembers fewer per cluster.
	mostShut = 256
)

// survey holds the results for the peers that the broker named.
type survey struct {
	// found are the results that the broker does not have yet, by cluster.
	found map[string]v1.Link
	// shut are the clusters whose last probe failed.
	shut map[string]bool
}

func newSurvey() survey { return survey{found: map[string]v1.Link{}, shut: map[string]bool{}} }

// Ask schedules probes of peers. It replaces those that have not been probed yet.
func (s *Scout) Ask(peers []v1.Peer) {
	s.mu.Lock()
	s.peers = append([]v1.Peer(nil), peers...)
	s.mu.Unlock()
	s.wakeWorkers()
}

// Found returns the results that the broker does not have yet.
func (s *Scout) Found() []v1.Link {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []v1.Link
	for _, l := range s.survey.found {
		out = append(out, l)
	}
	return out
}

// Told marks results as delivered to the broker.
func (s *Scout) Told(links []v1.Link) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range links {
		if s.survey.found[l.ClusterID] == l {
			delete(s.survey.found, l.ClusterID)
		}
	}
}

// News receives when a peer becomes unreachable, or reachable again. A new peer counts as
// reachable before its first probe. It has one reader.
func (s *Scout) News() <-chan struct{} { return s.news }

func (s *Scout) nextPeer() (v1.Peer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.peers) == 0 {
		return v1.Peer{}, false
	}
	next := s.peers[0]
	s.peers = s.peers[1:]
	return next, true
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
		clear(s.survey.shut) // the next failures of these clusters count as news again
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
