package broker

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// linksDue is the prefix of the names of the deadlines at which reported links of a requester expire.
	linksDue = "links/"
	// maxLinks is how many links of one requester are remembered. So memory and probes grow with
	// the number of clusters, not with the number of their pairs.
	maxLinks = 64
	// maxPeers is how many providers one answer asks a requester to probe.
	maxPeers = 16
	// linkTTL is how long a reported link counts. After that, a provider that was reported as unreachable is no
	// longer excluded.
	linkTTL = 10 * time.Minute
	// reachableProbe and unreachableProbe are how long after the last report a requester is asked to probe a reachable
	// and an unreachable provider again. It is asked in the answers to its advertisements.
	reachableProbe   = linkTTL / 2
	unreachableProbe = 15 * time.Second
)

// unreachable is the reason with which a requester gives up a placement because it cannot reach the
// provider.
const unreachable = string(decision.Unreachable)

// link is a requester's last report on whether it can reach a provider's API server.
type link struct {
	reportedAt time.Time
	// unreachableSince is when the provider was first reported as unreachable; zero if it is
	// reachable.
	unreachableSince time.Time
	roundTrip        time.Duration
}

// isOverdue reports whether the provider should be probed again.
func (l link) isOverdue(now time.Time) bool {
	after := reachableProbe
	if !l.unreachableSince.IsZero() {
		after = unreachableProbe
	}
	return now.Sub(l.reportedAt) >= after
}

// links stores which requester can reach which provider, and asks agents to probe. It is not
// journaled: agents report again soon after a takeover. A requester that has not reported yet
// notices an unreachable provider when it peers.
type links struct {
	s *session
	// of maps a requester and a provider to the link that the requester last reported.
	of map[string]map[string]link
	// endpoints has, by provider, the address of the API server to which the reported links refer.
	endpoints map[string]string
}

func newLinks(s *session) links {
	return links{s: s, of: map[string]map[string]link{}, endpoints: map[string]string{}}
}

func (l *links) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		l.dropOutdated(l.s.book.Cluster(change.ClusterID))
	case *ledger.ForgetCluster:
		l.dropCluster(change.ClusterID)
	}
}

// storeReport stores the links that a requester reports. It ignores reports about an address that the provider no
// longer has.
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

// reportUnreachable stores that a requester could not peer with a provider; why is the requester's message.
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

// setLink stores a link and updates the market. detail says why the provider is unreachable.
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

// dropOutdated drops the links to a cluster if its address has changed.
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

// publishChange notifies the controller that publishes the requester's ClusterAdvertisement. It does nothing for a
// requester that is not a cluster in the book.
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

// unreachableFrom returns the providers that a requester cannot reach, sorted by ID.
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

// oldestProvider returns the provider that the requester reported on least recently, "" if there
// are no reports.
func (l *links) oldestProvider(requester string) string {
	oldest, mine := "", l.of[requester]
	for id, is := range mine {
		if o := mine[oldest]; oldest == "" || is.reportedAt.Before(o.reportedAt) || is.reportedAt.Equal(o.reportedAt) && id < oldest {
			oldest = id
		}
	}
	return oldest
}

// setDeadline schedules expireReports for when the requester's oldest link expires.
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

// peersToProbe returns the providers that a requester should probe: first its current providers,
// then those for which isOverdue is true, then possible future providers. It lists possible future
// providers in the order of IDs, starting after the requester's own ID, so that all clusters are
// probed equally often.
func (l *links) peersToProbe(requester string) []v1.Peer {
	out := l.currentProviders(requester)
	for _, id := range l.overdueProviders(requester) {
		if len(out) < maxPeers*3/4 { // leaves room for other providers even if many do not answer
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

// addPeer appends a cluster to out, unless it cannot be probed or is listed already, or the list is
// full.
func (l *links) addPeer(out []v1.Peer, requester, id string) []v1.Peer {
	c := l.s.book.Cluster(id)
	listed := slices.ContainsFunc(out, func(peer v1.Peer) bool { return peer.ClusterID == id })
	if len(out) == maxPeers || listed || id == requester || c == nil || !c.Agent || c.Endpoint == "" {
		return out
	}
	return append(out, v1.Peer{ClusterID: id, EndpointURL: c.Endpoint})
}

// overdueProviders returns the providers that should be probed again, the oldest report first.
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
