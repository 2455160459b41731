package broker

import (
	"context"
	"fmt"
	"strings"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/reputation"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// suspensions holds the reason for each blocked pair of requester and provider. The text stays
// the same as long as the same pause lasts. The tests of package reputation check the pauses. Here
// the oracle checks that decisions respect them.
type suspensions struct {
	blocked map[way]string
	// lastResort are the pairs whose pauses allow a placement if no other provider can serve.
	lastResort map[way]bool
}

// keep reports whether a requester is blocked from using a provider.
func (s suspensions) keep(requester, provider string) bool {
	return s.blocked[way{requester, provider}]+s.blocked[way{"", provider}]+s.blocked[way{requester, ""}] != ""
}

// avoids reports whether a provider is the last resort of a requester.
func (s suspensions) avoids(requester, provider string) bool {
	return s.lastResort[way{requester, provider}] || s.lastResort[way{"", provider}]
}

// lasting returns a reason that blocked a requester before the step and still does; "" for none. A
// block that began or ended within the step may have done so after the placement. If the provider
// delivered a placement in the step, that ended its block, and the next grant on trial began another
// one, which ends at the same time if the clock stands still.
func (s suspensions) lasting(before suspensions, requester, provider string, delivered bool) string {
	ways := []way{{requester, ""}}
	if !delivered {
		ways = append(ways, way{requester, provider}, way{"", provider})
	}
	for _, w := range ways {
		if why := s.blocked[w]; why != "" && why == before.blocked[w] {
			return why
		}
	}
	return ""
}

func (m *machine) suspensionsNow(now time.Time) suspensions {
	out := suspensions{map[way]string{}, map[way]bool{}}
	note := func(w way, s *reputation.Suspension, provides bool) {
		switch {
		case s == nil:
		case !s.LastResort:
			out.blocked[w] += fmt.Sprintf("until %s, providing %t", s.Until, provides)
		case provides:
			out.lastResort[w] = true
		}
	}
	m.session.book.Clusters(func(c *ledger.Cluster) {
		all, of, _ := c.Providing.Suspended(now)
		note(way{"", c.ClusterID}, all, true)
		for requester, s := range of {
			note(way{requester, c.ClusterID}, &s, true)
		}
	})
	m.session.book.Clusters(func(c *ledger.Cluster) {
		all, of, _ := c.Consuming.Suspended(now)
		note(way{c.ClusterID, ""}, all, false)
		for provider, s := range of {
			note(way{c.ClusterID, provider}, &s, false)
		}
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

// liftPauses lifts the pauses of a cluster as an administrator does, sometimes with a mark used before,
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
	for w, why := range m.suspensionsNow(m.now()).blocked {
		fails, exceeds := strings.Contains(why, "providing true"), strings.Contains(why, "providing false")
		if lifted && (w.to == id && fails || w.from == id && exceeds) {
			return cause{}, fmt.Errorf("the pauses of %s were lifted, and %v is kept away: %s", id, w, why)
		}
	}
	return cause{}, nil
}
