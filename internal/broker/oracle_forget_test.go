package broker

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/recovery"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// forgetCluster removes a cluster, mostly after a silence of ten minutes. A cluster that was
// heard more recently stays.
func (m *machine) forgetCluster(c choose) (cause, error) {
	id := oneOf(c, "paris", "berlin", "rome", "oslo", "nowhere")
	if c(3) > 0 {
		if why, err := m.pass(10 * time.Minute); err != nil {
			return why, err
		}
		if err := m.catchUp(cause{}); err != nil {
			return cause{}, err
		}
	}
	l := m.lenders[id]
	silent := l != nil && l.agent && m.now().Sub(l.heard) >= 10*time.Minute
	err := m.ForgetCluster(context.Background(), id)
	switch reason := fault.ReasonOf(err); {
	case reason == fault.Recovering && m.now().Sub(m.began) < recovery.ListenGrace:
		return cause{}, nil
	case err == nil && (l == nil || !l.agent), reason == fault.Conflict && l != nil && l.agent && !silent:
		return cause{}, nil
	case err != nil || !silent:
		return cause{}, fmt.Errorf("forgetting %s, silent: %t: %w", id, silent, err)
	}
	if again := m.ForgetCluster(context.Background(), id); again != nil {
		return cause{}, fmt.Errorf("forgetting %s again: %w", id, again)
	}
	m.forget(id)
	return cause{}, nil
}

// forget drops what the oracle knows about a cluster: its offer, its quotes on both sides, and the
// reports about its links.
func (o *oracle) forget(id string) {
	o.forgot = id
	o.lenders[id] = &lender{
		amounts: quantity.Amounts{}, own: quantity.Amounts{}, used: map[string]quantity.Amounts{},
		recalls: map[string]time.Time{}, unheard: map[string]bool{},
	}
	for _, p := range o.pledges {
		p.over = p.over || p.provider == id || p.requester == id
	}
	maps.DeleteFunc(o.shutWays, func(w way, _ time.Time) bool { return w.from == id || w.to == id })
}
