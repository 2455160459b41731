// Package links stores which requester can reach which provider, and asks agents to probe.
package links

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/visibility"
	"github.com/mehdiazizian/liqo-resource-broker/internal/message"
)

const (
	// Due is the prefix of the names of the deadlines at which reported links of a requester expire.
	Due = "links/"
	// maxLinks is how many links of one requester are remembered. So memory and probes grow with
	// the number of clusters, not with the number of their pairs.
	maxLinks = 64
	// maxPeers is how many providers one answer asks a requester to probe.
	maxPeers = 16
	// TTL is how long a reported link counts. After that, a provider that was reported as unreachable is no
	// longer excluded.
	TTL = 10 * time.Minute
	// reachableProbe and unreachableProbe are how long after the last report a requester is asked to probe a reachable
	// and an unreachable provider again. It is asked in the answers to its advertisements.
	reachableProbe   = TTL / 2
	unreachableProbe = 15 * time.Second
)

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

// Session is what links need of the broker's session.
type Session interface {
	term.Term
	// TakingPart iterates over the reservations in which a cluster takes part, in the order of their
	// last changes.
	TakingPart(clusterID string) iter.Seq[*ledger.Reservation]
	// IsOpen reports whether a cluster can get new reservations.
	IsOpen(clusterID string) bool
	// Visibility says whether requesters may learn of clusters that do not serve them.
	Visibility() visibility.Visibility
}

// Links stores which requester can reach which provider, and asks agents to probe. It is not
// journaled: agents report again soon after a takeover. A requester that has not reported yet
// notices an unreachable provider when it peers.
type Links struct {
	s      Session
	market *decision.Market
	// of maps a requester and a provider to the link that the requester last reported.
	of map[string]map[string]link
	// endpoints has, by provider, the address of the API server to which the reported links refer.
	endpoints map[string]string
}

// New returns Links without reports. It keeps the links in the market up to date.
func New(s Session, market *decision.Market) *Links {
	return &Links{s: s, market: market, of: map[string]map[string]link{}, endpoints: map[string]string{}}
}

// Observe implements term.Observer.
func (l *Links) Observe(e term.Event) {
	switch change := e.Change.(type) {
	case *ledger.Offer:
		l.dropOutdated(l.s.Book().Cluster(change.ClusterID))
	case *ledger.ForgetCluster:
		l.dropCluster(change.ClusterID)
	}
}

// StoreReport stores the links that a requester reports. It ignores reports about an address that the provider no
// longer has.
func (l *Links) StoreReport(requester string, reported []v1.Link) {
	if len(reported) == 0 {
		return
	}
	for i := range reported {
		report := &reported[i]
		c := l.s.Book().Cluster(report.ClusterID)
		if c == nil || report.ClusterID == requester || c.Endpoint != report.EndpointURL {
			continue
		}
		if report.Reachable {
			l.setLink(requester, c, link{reportedAt: l.s.Now(), roundTrip: time.Duration(report.RoundTripMicroseconds) * time.Microsecond}, "")
			continue
		}
		l.setUnreachable(requester, c, report.Message)
	}
	l.setDeadline(requester)
}

// ReportUnreachable stores that a requester could not peer with a provider; why is the requester's message.
func (l *Links) ReportUnreachable(requester string, c *ledger.Cluster, why string) {
	l.setUnreachable(requester, c, why)
	l.setDeadline(requester)
}

func (l *Links) setUnreachable(requester string, c *ledger.Cluster, why string) {
	now := l.s.Now()
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
func (l *Links) setLink(requester string, c *ledger.Cluster, is link, detail string) {
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
	l.market.SetLink(requester, c.ClusterID, decision.Link{
		Measured: is.unreachableSince.IsZero(), Latency: is.roundTrip, Unreachable: !is.unreachableSince.IsZero(), Detail: detail,
	})
	if was.unreachableSince.Equal(is.unreachableSince) {
		return
	}
	l.publishChange(requester)
	if is.unreachableSince.IsZero() {
		l.s.NoteFreed(c.ClusterID) // waiting requests may be granted there now
	}
}

func (l *Links) dropLink(requester, provider string) {
	was := l.of[requester][provider]
	delete(l.of[requester], provider)
	l.market.SetLink(requester, provider, decision.Link{})
	if !was.unreachableSince.IsZero() {
		l.publishChange(requester)
		l.s.NoteFreed(provider)
	}
}

func (l *Links) dropOutdated(c *ledger.Cluster) {
	if was, known := l.endpoints[c.ClusterID]; known && was != "" && was != c.Endpoint {
		l.dropLinksTo(c.ClusterID)
	}
}

func (l *Links) dropLinksTo(provider string) {
	for requester, mine := range l.of {
		if _, known := mine[provider]; known {
			l.dropLink(requester, provider)
		}
	}
	delete(l.endpoints, provider)
}

// publishChange notifies the controller that publishes the requester's ClusterAdvertisement. It does nothing for a
// requester that is not a cluster in the book.
func (l *Links) publishChange(requester string) {
	if l.s.Book().Cluster(requester) != nil {
		l.s.PublishCluster(requester)
	}
}

// Unreachable is a provider that a cluster cannot reach.
type Unreachable struct {
	ClusterID string
	// Since is when the cluster first reported it.
	Since time.Time
}

// UnreachableFrom returns the providers that a requester cannot reach, sorted by ID.
func (l *Links) UnreachableFrom(requester string) []Unreachable {
	var out []Unreachable
	for id, is := range l.of[requester] {
		if !is.unreachableSince.IsZero() {
			out = append(out, Unreachable{id, is.unreachableSince})
		}
	}
	slices.SortFunc(out, func(a, b Unreachable) int { return strings.Compare(a.ClusterID, b.ClusterID) })
	return out
}

func (l *Links) oldestProvider(requester string) string {
	oldest, mine := "", l.of[requester]
	for id, is := range mine {
		if o := mine[oldest]; oldest == "" || is.reportedAt.Before(o.reportedAt) || is.reportedAt.Equal(o.reportedAt) && id < oldest {
			oldest = id
		}
	}
	return oldest
}

func (l *Links) setDeadline(requester string) {
	mine := l.of[requester]
	if len(mine) == 0 {
		l.s.SetDeadline(Due+requester, time.Time{})
		return
	}
	l.s.SetDeadline(Due+requester, mine[l.oldestProvider(requester)].reportedAt.Add(TTL))
}

// ExpireReports drops a requester's links whose reports are too old.
func (l *Links) ExpireReports(requester string) {
	for id, is := range l.of[requester] {
		if l.s.Now().Sub(is.reportedAt) >= TTL {
			l.dropLink(requester, id)
		}
	}
	l.setDeadline(requester)
}

// PeersToProbe returns the providers that a requester should probe: first its current providers,
// then those for which isOverdue is true, then possible future providers. It lists possible future
// providers in the order of IDs, starting after the requester's own ID, so that all clusters are
// probed equally often.
func (l *Links) PeersToProbe(requester string) []v1.Peer {
	out := l.currentProviders(requester)
	for _, id := range l.overdueProviders(requester) {
		if len(out) < maxPeers*3/4 { // leaves room for other providers even if many do not answer
			out = l.addPeer(out, requester, id)
		}
	}
	if !l.s.Visibility().ShowsAll() {
		return out // the requester must not learn of other clusters
	}
	mine := l.of[requester]
	most := min(len(out)+max(maxLinks-len(mine), 0), maxPeers)
	for id := range l.market.After(requester) {
		if len(out) >= most {
			break
		}
		_, known := mine[id]
		if !known && l.s.IsOpen(id) && l.s.Book().Cluster(id).Lending.Refuses(requester) == "" {
			out = l.addPeer(out, requester, id)
		}
	}
	return out
}

func (l *Links) currentProviders(requester string) (out []v1.Peer) {
	for r := range l.s.TakingPart(requester) {
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
func (l *Links) addPeer(out []v1.Peer, requester, id string) []v1.Peer {
	c := l.s.Book().Cluster(id)
	listed := slices.ContainsFunc(out, func(peer v1.Peer) bool { return peer.ClusterID == id })
	if len(out) == maxPeers || listed || id == requester || c == nil || !c.Agent || c.Endpoint == "" {
		return out
	}
	return append(out, v1.Peer{ClusterID: id, EndpointURL: c.Endpoint})
}

// overdueProviders returns the providers that should be probed again, the oldest report first.
func (l *Links) overdueProviders(requester string) []string {
	var out []string
	mine := l.of[requester]
	for id, is := range mine {
		if is.isOverdue(l.s.Now()) {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, func(a, b string) int { return mine[a].reportedAt.Compare(mine[b].reportedAt) })
	return out
}

func (l *Links) dropCluster(clusterID string) {
	for provider := range l.of[clusterID] {
		l.dropLink(clusterID, provider)
	}
	delete(l.of, clusterID)
	l.dropLinksTo(clusterID)
	l.setDeadline(clusterID)
}
