package broker

import (
	"fmt"
	"maps"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/drains"
)

// findEmptying returns the drain of a cluster, and whether the reservations there have to leave.
func (o *oracle) findEmptying(id string) (drains.Drain, bool) {
	d, ok := o.rules.drains[id]
	return d, ok && !d.CordonOnly
}

// isHeldBack reports whether a new request may have to wait although the clusters in able have
// room. That is so if the queue is paused and a waiting request comes first on one of them.
func (o *oracle) isHeldBack(key keyOf, request *v1.ReservationRequest, able []string) bool {
	asked := &told{keyOf: key, request: request}
	return o.rules.paused && slices.ContainsFunc(able, func(id string) bool {
		for _, other := range o.told {
			if other.waiting != nil && o.isBefore(other, asked) && (o.takes(id, other.amounts, other) || o.creates(id, other.amounts, other.timeLeft(time.Time{}))) {
				return true
			}
		}
		return false
	})
}

// drain begins, changes or ends the drain of a cluster. Sometimes it does so twice.
func (m *machine) drain(c choose) (cause, error) {
	id := oneOf(c, "paris", "paris", "berlin", "oslo", "nowhere")
	if err := m.changeDrain(c, id); err != nil || c(2) == 0 {
		return cause{}, err
	}
	if err := m.catchUp(cause{}); err != nil {
		return cause{}, err
	}
	return cause{}, m.changeDrain(c, id)
}

func (m *machine) changeDrain(c choose, id string) error {
	next := m.rules
	next.drains, next.drainedAt = maps.Clone(next.drains), maps.Clone(next.drainedAt)
	if next.drains == nil {
		next.drains, next.drainedAt = map[string]drains.Drain{}, map[string]time.Time{}
	}
	if _, drained := next.drains[id]; drained && c(3) > 0 {
		delete(next.drains, id)
	} else {
		next.drains[id] = drains.Drain{CordonOnly: c(3) == 0, Notice: time.Duration(c(120)) * time.Second, Reason: fmt.Sprint("rack ", c(3))}
	}
	if _, was := m.findEmptying(id); !was {
		next.drainedAt[id] = m.now()
	}
	if d, is := next.drains[id]; !is || d.CordonOnly {
		m.noteUndrained(id)
	}
	return m.setRules(next)
}

// noteUndrained is called when the drain of a lender ends. A recall of the lender that the drain
// replaced takes effect again only when the lender repeats it, so its placement becomes unheard.
func (m *machine) noteUndrained(id string) {
	for _, r := range m.told {
		if c := r.recall; c != nil && c.IsDrain() && r.placements[c.Placement-1].provider == id {
			if placement := brokerv1alpha1.PlacementName(r.name, c.Placement); !m.lenders[id].recalls[placement].IsZero() {
				m.lenders[id].unheard[placement] = true
			}
		}
	}
}

// pause pauses the queue or resumes it.
func (m *machine) pause(choose) (cause, error) {
	next := m.rules
	next.paused = !next.paused
	return cause{}, m.setRules(next)
}
