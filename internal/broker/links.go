package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// linksDue marks an entry of deadlines that speaks of what a cluster told of its ways
	// to others.
	linksDue = "links/"
	// mostLinks is of how many providers it is remembered whether one cluster reaches them:
	// what is known, and what is done to know it, grows with clusters and not with pairs.
	mostLinks = 64
	// mostPeers is how many of them it is asked to look at in one answer.
	mostPeers = 16
	// linkLasts is how long what was told counts. Nobody stays left out for want of news.
	linkLasts = 10 * time.Minute
	// lookAgain and retryAgain are after what time one that is reachable, and one that is
	// not, is to be looked at again: the latter with the next advertisement.
	lookAgain  = linkLasts / 2
	retryAgain = advertiseEvery / 2
)

// unreachable is why a consumer gives a placement up whose provider it cannot reach.
const unreachable = string(decision.Unreachable)

// link is what a cluster told of its way to a provider. It is not in the journal: it is
// asked for again sooner than a takeover is noticed, and who is not asked in time finds
// out when it peers.
type link struct {
	// at is when it was told last, since when it was not reachable, zero if it is.
	at, since time.Time
	roundTrip time.Duration
}

// overdue is whether it is time to look again.
func (l link) overdue(now time.Time) bool {
	after := lookAgain
	if !l.since.IsZero() {
		after = retryAgain
	}
	return now.Sub(l.at) >= after
}

// takeLinks notes what a cluster tells of its ways to others. What it says of an address
// that is not the cluster's any more says nothing.
func (t *term) takeLinks(requester string, links []v1.Link) {
	if len(links) == 0 {
		return
	}
	for i := range links {
		said := &links[i]
		c := t.state.Cluster(said.ClusterID)
		if c == nil || said.ClusterID == requester || c.Endpoint != said.EndpointURL {
			continue
		}
		if said.Reachable {
			t.setLink(requester, c, link{at: t.now(), roundTrip: time.Duration(said.RoundTripMicroseconds) * time.Microsecond}, "")
			continue
		}
		t.cannotReach(requester, c, said.Message)
	}
	t.awaitLinks(requester)
}

func (t *term) cannotReach(requester string, c *ledger.Cluster, why string) {
	now := t.now()
	l := link{at: now, since: now}
	if known := t.presenceOf(requester).links[c.ClusterID]; !known.since.IsZero() {
		l.since = known.since
	}
	text := fmt.Sprintf("%s cannot reach %s since %s", requester, c.Endpoint, l.since.Format(time.RFC3339))
	if why != "" {
		text += ": " + message.Clip(why, 256)
	}
	t.setLink(requester, c, l, text)
}

// setLink has decisions know of a link; detail is why it cannot be used. Whoever has set
// some calls awaitLinks.
func (t *term) setLink(requester string, c *ledger.Cluster, l link, detail string) {
	p := t.presenceOf(requester)
	if p.links == nil {
		p.links = map[string]link{}
	}
	was, known := p.links[c.ClusterID]
	if !known && len(p.links) >= mostLinks {
		t.dropLink(requester, p.oldestLink())
	}
	p.links[c.ClusterID] = l
	t.market.SetLink(requester, c.ClusterID, decision.Link{
		Measured: l.since.IsZero(), Latency: l.roundTrip, Unreachable: !l.since.IsZero(), Detail: detail,
	})
	if was.since.Equal(l.since) {
		return
	}
	t.showLinks(requester)
	if l.since.IsZero() {
		t.grew(c.ClusterID) // who waits may go there now
	}
}

func (t *term) dropLink(requester, provider string) {
	p := t.presenceOf(requester)
	was := p.links[provider]
	delete(p.links, provider)
	t.market.SetLink(requester, provider, decision.Link{})
	if !was.since.IsZero() {
		t.showLinks(requester)
		t.grew(provider)
	}
}

// showLinks has it shown which providers a cluster cannot reach, if it has advertised.
func (t *term) showLinks(requester string) {
	if t.state.Cluster(requester) != nil {
		t.b.feed.cluster(requester)
	}
}

// Shut is a provider that a cluster cannot reach.
type Shut struct {
	ClusterID string
	Since     time.Time
}

// shutTo are those that a cluster cannot reach, by name.
func (p *presence) shutTo() []Shut {
	var out []Shut
	for id, l := range p.links {
		if !l.since.IsZero() {
			out = append(out, Shut{id, l.since})
		}
	}
	slices.SortFunc(out, func(a, b Shut) int { return strings.Compare(a.ClusterID, b.ClusterID) })
	return out
}

// oldestLink is of which nothing was told for longest.
func (p *presence) oldestLink() string {
	oldest := ""
	for id, l := range p.links {
		if o := p.links[oldest]; oldest == "" || l.at.Before(o.at) || l.at.Equal(o.at) && id < oldest {
			oldest = id
		}
	}
	return oldest
}

// awaitLinks has links looked at when the first of them counts no longer.
func (t *term) awaitLinks(requester string) {
	p := t.presenceOf(requester)
	if len(p.links) == 0 {
		t.due.set(linksDue+requester, time.Time{})
		return
	}
	t.due.set(linksDue+requester, p.links[p.oldestLink()].at.Add(linkLasts))
}

// expireLinks forgets what was told too long ago.
func (t *term) expireLinks(requester string) {
	p := t.presenceOf(requester)
	for id, l := range p.links {
		if t.now().Sub(l.at) >= linkLasts {
			t.dropLink(requester, id)
		}
	}
	t.awaitLinks(requester)
}

// moved forgets what was told of ways to a cluster that has another address now.
func (t *term) moved(c *ledger.Cluster) {
	p := t.presenceOf(c.ClusterID)
	if p.endpoint != c.Endpoint && p.endpoint != "" {
		for requester, other := range t.presence {
			if _, known := other.links[c.ClusterID]; known {
				t.dropLink(requester, c.ClusterID)
			}
		}
	}
	p.endpoint = c.Endpoint
}

// peersOf are clusters that one is to look at: first those that it peers with, then those
// that it was not asked about for long, then others that may become its providers, in the
// order of names from its own on, so that all are looked at by as many.
func (t *term) peersOf(requester string) []v1.Peer {
	out := t.providersOf(requester)
	p := t.presenceOf(requester)
	for _, id := range p.overdueLinks(t.now()) {
		if len(out) < mostPeers*3/4 { // others come to it even if many do not answer
			out = t.addPeer(out, requester, id)
		}
	}
	if !t.b.config.Visibility.showsAll() {
		return out // who else there is, it is not told
	}
	most := min(len(out)+max(mostLinks-len(p.links), 0), mostPeers)
	for id := range t.market.After(requester) {
		if len(out) >= most {
			break
		}
		_, known := p.links[id]
		if !known && t.presenceOf(id).open && t.state.Cluster(id).Lending.Refuses(requester) == "" {
			out = t.addPeer(out, requester, id)
		}
	}
	return out
}

// providersOf are the clusters on which a requester has something.
func (t *term) providersOf(requester string) (out []v1.Peer) {
	for r := range t.newsOf(requester).all(t.state) {
		for i := range r.Placements {
			if p := &r.Placements[i]; r.Requester == requester && r.Stands(p) {
				out = t.addPeer(out, requester, p.Provider)
			}
		}
	}
	return out
}

// addPeer lists another cluster that can be looked at, once and while there is room.
func (t *term) addPeer(out []v1.Peer, requester, id string) []v1.Peer {
	c := t.state.Cluster(id)
	listed := slices.ContainsFunc(out, func(peer v1.Peer) bool { return peer.ClusterID == id })
	if len(out) == mostPeers || listed || id == requester || c == nil || !c.Agent || c.Endpoint == "" {
		return out
	}
	return append(out, v1.Peer{ClusterID: id, EndpointURL: c.Endpoint})
}

// overdueLinks are the providers to look at again, longest ago first.
func (p *presence) overdueLinks(now time.Time) []string {
	var out []string
	for id, l := range p.links {
		if l.overdue(now) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return p.links[a].at.Compare(p.links[b].at) })
	return out
}
