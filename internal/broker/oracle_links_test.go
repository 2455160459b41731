package broker

import (
	"context"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// way is the direction from one cluster to another.
type way struct{ from, to string }

// reaches reports whether no report of the last ten minutes says that the link is broken.
func (o *oracle) reaches(from, to string, now time.Time) bool {
	at, told := o.shutWays[way{from, to}]
	return !told || now.Sub(at) >= 10*time.Minute
}

// look makes a cluster report random states of some of its links.
func (m *machine) look(c choose) (cause, error) {
	id := oneOf(c, "rome", "rome", "paris")
	l := m.lenders[id]
	if l == nil || !l.agent {
		return cause{}, nil
	}
	m.sequence++
	said := *l
	said.heard, said.epoch, said.sequence = m.now(), m.epochOf(id), m.sequence
	var links []v1.Link
	for _, to := range []string{"paris", "berlin", "rome", "oslo", "nowhere"} {
		if c(2) == 0 {
			continue
		}
		link := v1.Link{ClusterID: to, EndpointURL: endpointOf(to), Reachable: c(3) > 0}
		links = append(links, link)
		switch known := m.lenders[to]; {
		case known == nil || to == id || !known.agent:
		case link.Reachable:
			delete(m.shutWays, way{id, to})
		default:
			m.shutWays[way{id, to}] = m.now()
		}
	}
	return cause{}, m.repeat(id, &said, links...)
}

// cannotReach sends a consumer's report that a provider is unreachable or refuses the handshake, or
// that the consumer declines the placement, in any phase of the placement.
func (m *machine) cannotReach(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil || len(r.placements) == 0 {
		return cause{}, nil
	}
	reason := oneOf(c, unreachable, unreachable, ledger.HandshakeRefused, ledger.HandshakeRefused, declined)
	err := m.ReportStatus(context.Background(), r.requester, r.name, &v1.StatusReport{
		Placement: int32(c(len(r.placements)) + 1), Role: consumer, State: v1.StatusReportStateRefused, Reason: reason,
	})
	if fault.ReasonOf(err) == fault.Conflict {
		err = nil
	}
	if reason == declined {
		return cause{released: r.name}, err
	}
	return cause{}, err
}
