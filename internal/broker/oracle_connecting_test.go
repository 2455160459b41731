package broker

import (
	"context"
	"fmt"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// mayConnect reports whether a placement may wait for its network: its provider has not failed the requester recently
// and, if no node of the provider has ever become Ready, at most three other placements on it wait.
func (m *machine) mayConnect(r *told, n int, now time.Time) bool {
	p := r.placements[n]
	if l := m.lenders[r.requester]; l == nil || !l.agent {
		return false
	}
	if p.givenUp || p.served || !p.connecting.IsZero() || !p.acknowledged && m.lenders[p.provider].agent {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.session.book.Cluster(p.provider)
	if c.Providing.Doubted(r.requester, now) {
		return false
	}
	waiting := 0
	for _, other := range m.told {
		for _, q := range other.placements {
			if q.provider == p.provider && !q.givenUp && !q.served && !q.connecting.IsZero() {
				waiting++
			}
		}
	}
	return c.Record.Ready > 0 || waiting < 4
}

// connect makes a requester report that only the network of a placement is missing. Usually the
// provider acknowledges the placement just before.
func (m *machine) connect(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil || len(r.placements) == 0 {
		return cause{}, nil
	}
	n := len(r.placements) - 1
	if c(4) == 0 {
		n = c(n + 1)
	} else {
		err := m.ReportStatus(context.Background(), r.placements[n].provider, r.name, &v1.StatusReport{Placement: int32(n + 1), Role: provider, State: v1.StatusReportStateAcknowledged})
		if reason := fault.ReasonOf(err); err != nil && reason != fault.Conflict {
			return cause{}, err
		}
		if err := m.catchUp(cause{}); err != nil || n >= len(r.placements) {
			return cause{}, err
		}
	}
	if m.mayConnect(r, n, m.now()) {
		r.placements[n].connecting = m.now()
	}
	return cause{}, m.ReportStatus(context.Background(), r.requester, r.name, &v1.StatusReport{Placement: int32(n + 1), Role: consumer, State: v1.StatusReportStateConnecting})
}

// readyBy returns when the node of a placement must be Ready, and the reason for giving it up then.
func (o *oracle) readyBy(known *told, was *promise) (time.Time, string) {
	from := was.ackedAt
	if l := o.lenders[known.requester]; l != nil && l.since.After(from) {
		from = l.since
	}
	by := from.Add(2 * time.Minute)
	if long := was.connecting.Add(10 * time.Minute); !was.connecting.IsZero() && long.After(by) {
		return long, "NeverConnected"
	}
	return by, "NeverReady"
}

// waitedRightly checks that a placement waits for its network if and only if it may, and that it is
// not given up for its node too early.
func (o *oracle) waitedRightly(known *told, p *ledger.Placement, was *promise, now time.Time) error {
	if !p.AcknowledgedAt.IsZero() && was.ackedAt.IsZero() {
		was.ackedAt = now
	}
	was.followNode(p, now)
	if want := term.Later(was.connecting, was.unready); was.reason == "" && p.Withdrawn == "" && !p.NodeSince.Time().Equal(want) {
		return fmt.Errorf("its node waits since %s, the broker counts from %s", want, p.NodeSince.Time())
	}
	if was.reason != "" || p.Withdrawn != "NeverReady" && p.Withdrawn != "NeverConnected" {
		return nil
	}
	if by, why := o.readyBy(known, was); o.lenders[p.Provider].agent && (now.Before(by) || p.Withdrawn != why) {
		return fmt.Errorf("it was given up with %s, want %s at %s", p.Withdrawn, why, by)
	}
	return nil
}

// followNode notes whether the node was ever Ready, and since when it is no longer Ready.
func (was *promise) followNode(p *ledger.Placement, now time.Time) {
	if was.served = was.served || p.EverReady; was.served {
		was.connecting = time.Time{}
	}
	switch {
	case p.Ready:
		if !was.ready {
			was.outage, was.readyAt = was.unready, now
		}
		was.unready = time.Time{}
	case was.ready && p.Withdrawn == "":
		was.unready = now
		if !was.outage.IsZero() && now.Sub(was.readyAt) < time.Minute {
			was.unready = was.outage
		}
	}
	was.ready = p.Ready
}

// isUnready reports whether a placement's node is NotReady for so long that the reservation may move.
func (was *promise) isUnready(now time.Time) bool {
	return !was.unready.IsZero() && now.Sub(was.unready) >= 5*time.Minute
}

// nodesInTime returns an error if a placement stands whose node is overdue. A broker that started
// recently may take longer. Of two standing placements, the older one has no deadline for its node:
// the node was Ready before, or the requester has no agent that could report it.
func (o *oracle) nodesInTime(now, began time.Time) error {
	for _, r := range o.told {
		if l := o.lenders[r.requester]; l == nil || !l.agent || r.ended != "" {
			continue
		}
		for i := range r.placements {
			p := &r.placements[i]
			if p.givenUp || p.served || i != r.newest() || p.ackedAt.IsZero() || !o.lenders[p.provider].agent {
				continue
			}
			if by, why := o.readyBy(r, p); !now.Before(term.Later(by, began.Add(2*time.Minute))) {
				return fmt.Errorf("placement %s-%d stands %s after it was to be given up with %s", r.name, i+1, now.Sub(by), why)
			}
		}
	}
	return nil
}
