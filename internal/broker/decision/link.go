package decision

import (
	"cmp"
	"slices"
	"time"
)

// Link is what the broker knows about one requester's connection to one provider. The zero Link
// means that nothing is known; it rejects no provider.
type Link struct {
	// Latency is the measured round-trip time; it is valid if Measured is true.
	Latency  time.Duration
	Measured bool
	// Unreachable: the requester cannot reach the provider's API server.
	Unreachable bool
	// Detail says since when and why the provider is unreachable, for display.
	Detail string
	// Denied: the provider does not lend to this requester.
	Denied bool
}

// links are the known links of one requester, sorted by the provider's row. Agents measure only a
// few of all pairs of clusters, so a full matrix would be mostly empty.
type links []linkTo

type linkTo struct {
	provider int32
	Link
}

// SetLink stores the link from a requester to a provider and reports whether the provider is in the
// market. The zero Link deletes the stored one.
func (m *Market) SetLink(requester, provider string, l Link) bool {
	i, ok := m.row[provider]
	if !ok {
		return false
	}
	known := m.links[requester]
	at, found := known.findLink(i)
	switch {
	case l == Link{} && found:
		known = slices.Delete(known, at, at+1)
	case l == Link{}:
	case found:
		known[at].Link = l
	default:
		known = slices.Insert(known, at, linkTo{i, l})
	}
	m.storeLinks(requester, known)
	return true
}

func (m *Market) storeLinks(requester string, known links) {
	if m.links[requester] = known; len(known) == 0 {
		delete(m.links, requester)
	}
}

func (l links) findLink(provider int32) (int, bool) {
	return slices.BinarySearchFunc(l, provider, func(e linkTo, p int32) int { return cmp.Compare(e.provider, p) })
}

// forgetLinks removes all links from and to a cluster that leaves the market. i is the row of the
// cluster. Another cluster will get this row, and must not inherit the links.
func (m *Market) forgetLinks(id string, i int32) {
	delete(m.links, id)
	for requester, known := range m.links {
		if at, found := known.findLink(i); found {
			m.storeLinks(requester, slices.Delete(known, at, at+1))
		}
	}
}
