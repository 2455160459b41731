package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// suspensions holds the reason for each blocked pair of requester and provider. The text stays
// the same as long as the same pause or trial lasts. The ledger's tests check the pauses
// against the naive book. Here the oracle checks that decisions respect them.
type suspensions map[way]string

// keep reports whether a requester is blocked from using a provider.
func (s suspensions) keep(requester, provider string) bool {
	return s[way{requester, provider}]+s[way{"", provider}]+s[way{requester, ""}] != ""
}

// lasting returns a reason that blocked a requester before the step and still does; "" for none. A
// block that began or ended within the step may have done so after the placement.
func (s suspensions) lasting(before suspensions, requester, provider string) string {
	for _, w := range []way{{requester, provider}, {"", provider}, {requester, ""}} {
		if why := s[w]; why != "" && why == before[w] {
			return why
		}
	}
	return ""
}

func (m *machine) suspensionsNow(now time.Time) suspensions {
	out := suspensions{}
	text := func(s *ledger.Suspension) string { return fmt.Sprintf("until %s, trial %q", s.Until, s.Trial) }
	m.session.book.Clusters(func(c *ledger.Cluster) {
		if s := c.Providing.Suspended(now); s != nil {
			out[way{"", c.ClusterID}] += text(s)
		}
		if s := c.Consuming.Suspended(now); s != nil {
			out[way{c.ClusterID, ""}] += text(s)
		}
		c.Providing.SuspendedFor(now, func(requester string, s *ledger.Suspension) {
			out[way{requester, c.ClusterID}] += "fails: " + text(s)
		})
	})
	m.session.book.Clusters(func(c *ledger.Cluster) {
		c.Consuming.SuspendedFor(now, func(provider string, s *ledger.Suspension) {
			out[way{c.ClusterID, provider}] += "exceeds: " + text(s)
		})
	})
	return out
}

// exceed makes a provider report that a requester exceeds a grant.
func (m *machine) exceed(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil || len(r.placements) == 0 {
		return cause{}, nil
	}
	n := c(len(r.placements))
	err := m.ReportStatus(context.Background(), r.placements[n].provider, r.name, &v1.StatusReport{
		Placement: int32(n + 1), Role: provider, State: v1.StatusReportStateAcknowledged,
		Excess: &v1.Excess{Pods: int32(c(20)), Resources: v1.Amounts{"cpu": "1"}},
	})
	if fault.ReasonOf(err) == fault.Conflict {
		err = nil
	}
	return cause{}, err
}

// lie makes a provider withdraw a placement that it has just acknowledged.
func (m *machine) lie(c choose) (cause, error) {
	r := m.anyTold(c)
	if r == nil || r.newest() < 0 {
		return cause{}, nil
	}
	n := r.newest()
	report := v1.StatusReport{Placement: int32(n + 1), Role: provider, State: v1.StatusReportStateAcknowledged}
	if err := m.ReportStatus(context.Background(), r.placements[n].provider, r.name, &report); err != nil {
		return cause{}, err
	}
	if err := m.catchUp(cause{}); err != nil || r.newest() != n {
		return cause{}, err
	}
	report.State = v1.StatusReportStateRefused
	return cause{}, m.ReportStatus(context.Background(), r.placements[n].provider, r.name, &report)
}

// liftPauses lifts the pauses of a cluster as an operator does, sometimes with a mark used before,
// and checks that those pauses are over.
func (m *machine) liftPauses(c choose) (cause, error) {
	id, mark := oneOf(c, "paris", "berlin", "rome", "nowhere"), fmt.Sprint("mark-", m.steps-c(2))
	lifted, err := m.LiftPauses(context.Background(), id, mark)
	if err != nil {
		return cause{}, err
	}
	if again, err := m.LiftPauses(context.Background(), id, mark); again || err != nil {
		return cause{}, fmt.Errorf("the pauses of %s are lifted a second time with %s: %t, %w", id, mark, again, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for w, why := range m.suspensionsNow(m.now()) {
		fails, exceeds := w.from == "" || strings.Contains(why, "fails"), w.to == "" || strings.Contains(why, "exceeds")
		if lifted && (w.to == id && fails || w.from == id && exceeds) {
			return cause{}, fmt.Errorf("the pauses of %s were lifted, and %v is kept away: %s", id, w, why)
		}
	}
	return cause{}, nil
}
