package advertisement

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
)

// lookout is a Peers with results that the test sets.
type lookout struct {
	asked []v1.Peer
	found []v1.Link
	news  chan struct{}
}

func (l *lookout) ProbePeers(peers []v1.Peer) { l.asked = peers }
func (l *lookout) Unreported() []v1.Link      { return l.found }
func (l *lookout) Changed() <-chan struct{}   { return l.news }
func (l *lookout) MarkReported(links []v1.Link) {
	if slices.Equal(links, l.found) {
		l.found = nil
	}
}

func TestPeersAreProbedForBroker(t *testing.T) {
	b := newBench(t)
	seen := &lookout{}
	b.options.Peers = seen
	b.broker.Receipt = &v1.AdvertisementReceipt{NextSeconds: 30, Peers: []v1.Peer{{ClusterID: "paris", EndpointURL: "https://paris"}}}
	b.after(0)
	if diff := cmp.Diff(b.broker.Receipt.Peers, seen.asked); diff != "" {
		t.Errorf("to be looked at (-want +got):\n%s", diff)
	}
	shut := v1.Link{ClusterID: "paris", EndpointURL: "https://paris", Message: "connection refused"}
	seen.found = []v1.Link{shut}
	b.after(time.Second)
	if got := len(b.broker.Advertised()); got != 1 {
		t.Errorf("%d advertisements: what is no news waits for the next one", got)
	}
	b.broker.SetDown(true)
	b.urgent.Store(true)
	b.after(time.Second)
	if len(seen.found) != 1 {
		t.Error("what the broker did not hear is forgotten")
	}
	b.broker.SetDown(false)
	b.after(30 * time.Second)
	all := b.broker.Advertised()
	if diff := cmp.Diff([]v1.Link{shut}, all[len(all)-1].Links); diff != "" || seen.found != nil {
		t.Errorf("told of peers (-want +got):\n%s and is to be told again of %v", diff, seen.found)
	}
	b.urgent.Store(true)
	b.after(time.Second)
	if got := len(b.broker.Advertised()); got != len(all)+1 {
		t.Errorf("%d advertisements: news do not wait", got)
	}
	b.after(time.Second)
	if got := len(b.broker.Advertised()); got != len(all)+1 {
		t.Errorf("%d advertisements: news are told once", got)
	}
}
