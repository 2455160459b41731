package broker

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// newNodes are the nodes that a lender can create, of four cores and 16 GiB each, with the label and the taint of its
// existing node.
type newNodes struct {
	// offered is false for a lender that never creates nodes. count may be 0 for one that does.
	offered bool
	count   int64
	// amounts are what the lender lends of the nodes.
	amounts quantity.Amounts
	within  time.Duration
}

func anyNewNodes(c choose) newNodes {
	if c(2) == 0 {
		return newNodes{}
	}
	n := newNodes{offered: true, count: int64(c(4)), within: oneOf(c, 30*time.Second, 3*time.Minute, 10*time.Minute)}
	n.setAmounts(c)
	return n
}

// setAmounts lets a lender keep a core of its new nodes at times.
func (n *newNodes) setAmounts(c choose) {
	n.amounts = quantity.Amounts{corev1.ResourceCPU: max(4*n.count-int64(c(2)), 0) * 1000, corev1.ResourceMemory: n.count * 16 << 30}
}

// oneCreated returns the new nodes that are left once one of them exists.
func (n newNodes) oneCreated(c choose) newNodes {
	n.count--
	n.setAmounts(c)
	return n
}

// describe adds the new nodes to an advertisement.
func (n *newNodes) describe(adv *v1.Advertisement, like offeredNodes) {
	if !n.offered {
		return
	}
	adv.Elastic = &v1.Elastic{Amounts: written(n.amounts), ReadyWithinSeconds: n.within.Seconds()}
	if n.count > 0 {
		adv.Elastic.Nodes = []v1.NodeShape{like.shape(int32(n.count), v1.Amounts{"cpu": "4", "memory": "16Gi"})}
	}
}

// withNew returns the amount of a resource that is free at a lender once it has created all its new nodes.
func (o *oracle) withNew(id string, resource corev1.ResourceName) int64 {
	l := o.lenders[id]
	return max(l.amounts[resource]+l.created.amounts[resource]-l.own[resource]-o.promised(id, resource), 0)
}

// creates reports whether a lender has room for amounts if it creates nodes, and is in time for a reservation that is
// held for the time left, 0 for no bound. What is reserved for preemptors counts as taken.
func (o *oracle) creates(id string, amounts quantity.Amounts, left time.Duration) bool {
	l := o.lenders[id]
	if l.created.count == 0 || left > 0 && left <= l.created.within {
		return false
	}
	for resource, want := range amounts {
		if want > o.withNew(id, resource)-o.kept(id, resource, nobody) {
			return false
		}
	}
	return true
}

// timeLeft returns how long the reservation is held if it is granted now, 0 for no bound.
func (r *told) timeLeft(now time.Time) time.Duration {
	switch {
	case r.duration == 0 || len(r.placements) == 0 && r.waiting == nil:
		return r.duration
	case r.waiting != nil:
		return r.waiting.left
	}
	return max(r.until.Sub(now), 1)
}

// createsRightly checks that a lender may create nodes for a reservation: it has offered as many, they are Ready in time,
// and the reservation fits on no existing nodes.
func (o *oracle) createsRightly(known *told, provider string, now time.Time) error {
	l, left := o.lenders[provider], known.timeLeft(now)
	for resource, want := range known.amounts {
		if have := o.withNew(provider, resource); want > have {
			return fmt.Errorf("overbooked: %s has %d of %s left, new nodes included, and was promised to give %d", provider, have, resource, want)
		}
	}
	if l.created.count == 0 || left > 0 && left <= l.created.within {
		return fmt.Errorf("%s has to create nodes within %s (%d left) for a reservation that ends in %s", provider, l.created.within, l.created.count, left)
	}
	o.onNewNodes++
	if !o.isAlone(known) {
		return nil
	}
	for id := range o.lenders {
		if o.hasAdvertised(id) && o.mayServe(id, known, now) && o.takes(id, known.amounts, nil) {
			return fmt.Errorf("%s has to create nodes, and %s has room", provider, id)
		}
	}
	return nil
}

// creation is the time in which the provider of a placement creates nodes for it.
type creation struct {
	placement int
	ends      time.Time
}

// createdBy returns until when the provider of a placement creates nodes for it, zero if it does not.
func (r *told) createdBy(placement int) time.Time {
	if r.creation == nil || r.creation.placement != placement {
		return time.Time{}
	}
	return r.creation.ends
}

// provision reports that a provider creates nodes, mostly for a placement that it has not acknowledged yet.
func (m *machine) provision(c choose) (cause, error) {
	r := m.anyTold(c)
	for _, name := range m.names {
		if other := m.told[name]; other.newest() >= 0 && !other.placements[other.newest()].acknowledged && m.lenders[other.placements[other.newest()].provider].created.offered && c(3) > 0 {
			r = other
		}
	}
	if r == nil || len(r.placements) == 0 {
		return cause{}, nil
	}
	n := len(r.placements) - 1
	p := r.placements[n]
	err := m.ReportStatus(context.Background(), p.provider, r.name, &v1.StatusReport{Placement: int32(n + 1), Role: provider, State: v1.StatusReportStateProvisioning})
	known := !r.createdBy(n).IsZero()
	may := !p.givenUp && !p.acknowledged && (known || m.lenders[p.provider].created.offered)
	if may != (err == nil) || err != nil && fault.ReasonOf(err) != fault.Conflict {
		return cause{}, fmt.Errorf("creating nodes for %s-%d (allowed: %t): %w", r.name, n+1, may, err)
	}
	if may && !known {
		r.creation = &creation{n, p.assigned.Add(m.lenders[p.provider].created.within)}
	}
	return cause{}, nil
}

// createdRightly checks that a placement for which nodes are created is not given up as overdue too early.
func (o *oracle) createdRightly(known *told, p *ledger.Placement, i int, now time.Time) error {
	ends := known.createdBy(i)
	switch ledger.Due(p.Withdrawn) {
	case ledger.DueAcknowledgement:
		if !ends.IsZero() {
			return fmt.Errorf("it is given up as not acknowledged, and its provider creates nodes until %s", ends)
		}
	case ledger.DueNodes:
		if ends.IsZero() || now.Before(ends) {
			return fmt.Errorf("it is given up because its nodes are missing, due at %s", ends)
		}
	}
	return nil
}

// createdInTime returns an error if a placement stands whose new nodes are overdue. A broker that started recently waits
// until the provider may have learned of the placement.
func (o *oracle) createdInTime(now, began time.Time) error {
	for _, r := range o.told {
		n := r.newest()
		if n < 0 || r.ended != "" || r.placements[n].acknowledged || r.createdBy(n).IsZero() {
			continue
		}
		if by := term.Later(r.createdBy(n), began.Add(staleAfter)); !now.Before(by) {
			return fmt.Errorf("placement %s-%d stands %s after its new nodes had to be Ready", r.name, n+1, now.Sub(by))
		}
	}
	return nil
}
