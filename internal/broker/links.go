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
	// linksDue prefixes deadlines of the links that a requester reported.
	linksDue = "links/"
	// maxLinks bounds the remembered links of one requester. It keeps memory and probes
	// proportional to clusters rather than to pairs of clusters.
	maxLinks = 64
	// maxPeers bounds the providers that one answer asks a requester to probe.
	maxPeers = 16
	// linkTTL is how long a report counts. A provider without a newer report is not excluded.
	linkTTL = 10 * time.Minute
	// reachableProbe and unreachableProbe are how long after the last report a link is probed
	// again. An unreachable one is probed with every advertisement.
	reachableProbe   = linkTTL / 2
	unreachableProbe = 15 * time.Second
)

// unreachable is the reason that a requester reports when it gives up a placement because it
// cannot reach the provider.
const unreachable = string(decision.Unreachable)

// link is a requester's report about reaching a provider's API server.
type link struct {
	reportedAt time.Time
	// unreachableSince is zero if the provider is reachable.
	unreachableSince time.Time
	roundTrip        time.Duration
}

// isOverdue reports whether the link has to be probed again.
func (l link) isOverdue(now time.Time) bool {
	after := reachableProbe
	if !l.unreachableSince.IsZero() {
		after = unreachableProbe
	}
	return now.Sub(l.reportedAt) >= after
}

// links stores which requester reaches which provider, and asks agents to probe. It is not
// journaled: agents report again soon after a takeover, and a requester that was not asked in
// time detects an unreachable provider when it peers.
type links struct {
	s *session
	// of holds the reported links by requester and provider.
	of map[string]map[string]link
	// endpoints holds the address of each provider to which its links refer.
	endpoints map[string]string
}

func newLinks(s *session) links {
	return links{s: s, of: map[string]map[string]link{}, endpoints: map[string]string{}}
}

func (l *links) observe(e event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		l.dropOutdated(l.s.book.Cluster(change.ClusterID))
	case *ledger.ForgetCluster:
		l.dropCluster(change.ClusterID)
	}
}

// storeReport stores the links that a requester reports. Reports about an outdated endpoint are
// ignored.
func (l *links) storeReport(requester string, reported []v1.Link) {
	if len(reported) == 0 {
		return
	}
	for i := range reported {
		report := &reported[i]
		c := l.s.book.Cluster(report.ClusterID)
		if c == nil || report.ClusterID == requester || c.Endpoint != report.EndpointURL {
			continue
		}
		if report.Reachable {
			l.setLink(requester, c, link{reportedAt: l.s.now(), roundTrip: time.Duration(report.RoundTripMicroseconds) * time.Microsecond}, "")
			continue
		}
		l.setUnreachable(requester, c, report.Message)
	}
	l.setDeadline(requester)
}

// reportUnreachable stores that a requester could not peer with a provider.
func (l *links) reportUnreachable(requester string, c *ledger.Cluster, why string) {
	l.setUnreachable(requester, c, why)
	l.setDeadline(requester)
}

func (l *links) setUnreachable(requester string, c *ledger.Cluster, why string) {
	now := l.s.now()
	is := link{reportedAt: now, unreachableSince: now}
	if was := l.of[requester][c.ClusterID]; !was.unreachableSince.IsZero() {
		is.unreachableSince = was.unreachableSince
	}
	detail := fmt.Sprintf("%s cannot reach %s since %s", requester, c.Endpoint, is.unreachableSince.Format(time.RFC3339))
	if why != "" {
		detail += ": " + message.Clip(why, 256)
	}
	l.setLink(requester, c, is, detail)
}

// setLink stores a link and passes it on to the market; detail says why it cannot be used.
func (l *links) setLink(requester string, c *ledger.Cluster, is link, detail string) {
	mine := l.of[requester]
	if mine == nil {
		mine = map[string]link{}
		l.of[requester] = mine
	}
	was, known := mine[c.ClusterID]
	if !known && len(mine) >= maxLinks {
		l.dropLink(requester, l.oldestProvider(requester))
	}
	mine[c.ClusterID], l.endpoints[c.ClusterID] = is, c.Endpoint
	l.s.market.SetLink(requester, c.ClusterID, decision.Link{
		Measured: is.unreachableSince.IsZero(), Latency: is.roundTrip, Unreachable: !is.unreachableSince.IsZero(), Detail: detail,
	})
	if was.unreachableSince.Equal(is.unreachableSince) {
		return
	}
	l.publishChange(requester)
	if is.unreachableSince.IsZero() {
		l.s.queue.noteFreed(c.ClusterID) // waiting requests may be granted there now
	}
}

func (l *links) dropLink(requester, provider string) {
	was := l.of[requester][provider]
	delete(l.of[requester], provider)
	l.s.market.SetLink(requester, provider, decision.Link{})
	if !was.unreachableSince.IsZero() {
		l.publishChange(requester)
		l.s.queue.noteFreed(provider)
	}
}

// dropOutdated drops the links to a cluster whose endpoint has changed.
func (l *links) dropOutdated(c *ledger.Cluster) {
	if was, known := l.endpoints[c.ClusterID]; known && was != "" && was != c.Endpoint {
		for requester, mine := range l.of {
			if _, known := mine[c.ClusterID]; known {
				l.dropLink(requester, c.ClusterID)
			}
		}
		delete(l.endpoints, c.ClusterID)
	}
}

// publishChange requests a status update of a requester's ClusterAdvertisement, if it has one.
func (l *links) publishChange(requester string) {
	if l.s.book.Cluster(requester) != nil {
		l.s.b.feed.addCluster(requester)
	}
}

// UnreachableProvider is a provider that a cluster cannot reach.
type UnreachableProvider struct {
	ClusterID string
	Since     time.Time
}

// unreachableFrom returns the providers that a requester cannot reach, by name.
func (l *links) unreachableFrom(requester string) []UnreachableProvider {
	var out []UnreachableProvider
	for id, is := range l.of[requester] {
		if !is.unreachableSince.IsZero() {
			out = append(out, UnreachableProvider{id, is.unreachableSince})
		}
	}
	slices.SortFunc(out, func(a, b UnreachableProvider) int { return strings.Compare(a.ClusterID, b.ClusterID) })
	return out
}

// oldestProvider returns the provider whose report is oldest, "" if the requester reported none.
func (l *links) oldestProvider(requester string) string {
	oldest, mine := "", l.of[requester]
	for id, is := range mine {
		if o := mine[oldest]; oldest == "" || is.reportedAt.Before(o.reportedAt) || is.reportedAt.Equal(o.reportedAt) && id < oldest {
			oldest = id
		}
	}
	return oldest
}

// setDeadline schedules expire for the requester's oldest link.
func (l *links) setDeadline(requester string) {
	mine := l.of[requester]
	if len(mine) == 0 {
		l.s.deadlines.setDeadline(linksDue+requester, time.Time{})
		return
	}
	l.s.deadlines.setDeadline(linksDue+requester, mine[l.oldestProvider(requester)].reportedAt.Add(linkTTL))
}

// expireReports drops a requester's links whose reports are too old.
func (l *links) expireReports(requester string) {
	for id, is := range l.of[requester] {
		if l.s.now().Sub(is.reportedAt) >= linkTTL {
			l.dropLink(requester, id)
		}
	}
	l.setDeadline(requester)
}

// peersToProbe lists the providers that a requester should probe: first its current providers,
// then overdue ones, then possible future providers. The last are taken in the order of names,
// starting after the requester's own name, so that all clusters are probed equally often.
func (l *links) peersToProbe(requester string) []v1.Peer {
	out := l.currentProviders(requester)
	for _, id := range l.overdueProviders(requester) {
		if len(out) < maxPeers*3/4 { // leaves room for others even if many do not answer
			out = l.addPeer(out, requester, id)
		}
	}
	if !l.s.config().Visibility.showsAll() {
		return out // the requester must not learn of other clusters
	}
	mine := l.of[requester]
	most := min(len(out)+max(maxLinks-len(mine), 0), maxPeers)
	for id := range l.s.market.After(requester) {
		if len(out) >= most {
			break
		}
		_, known := mine[id]
		if !known && l.s.clusters.presenceOf(id).open && l.s.book.Cluster(id).Lending.Refuses(requester) == "" {
			out = l.addPeer(out, requester, id)
		}
	}
	return out
}

// currentProviders lists the clusters on which a requester has a standing placement.
func (l *links) currentProviders(requester string) (out []v1.Peer) {
	for r := range l.s.news.logOf(requester).allReservations(l.s.book) {
		for i := range r.Placements {
			if p := &r.Placements[i]; r.Requester == requester && r.Stands(p) {
				out = l.addPeer(out, requester, p.Provider)
			}
		}
	}
	return out
}

// addPeer appends a cluster that can be probed, unless it is listed or the list is full.
func (l *links) addPeer(out []v1.Peer, requester, id string) []v1.Peer {
	c := l.s.book.Cluster(id)
	listed := slices.ContainsFunc(out, func(peer v1.Peer) bool { return peer.ClusterID == id })
	if len(out) == maxPeers || listed || id == requester || c == nil || !c.Agent || c.Endpoint == "" {
		return out
	}
	return append(out, v1.Peer{ClusterID: id, EndpointURL: c.Endpoint})
}

// overdueProviders returns the providers to probe again, the oldest report first.
func (l *links) overdueProviders(requester string) []string {
	var out []string
	mine := l.of[requester]
	for id, is := range mine {
		if is.isOverdue(l.s.now()) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return mine[a].reportedAt.Compare(mine[b].reportedAt) })
	return out
}
