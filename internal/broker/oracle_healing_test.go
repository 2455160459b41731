package broker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// standing returns the number of placements of a reservation that were not given up.
func (r *told) standing() int {
	n := 0
	for _, p := range r.placements {
		if !p.givenUp {
			n++
		}
	}
	return n
}

// failuresOf returns how often a lender failed a reservation and when it last did, and whether the
// reservation must not go there at all.
func (r *told) failuresOf(id string) (n int, last time.Time, never bool) {
	for _, p := range r.placements {
		if p.provider != id {
			continue
		}
		switch p.reason {
		case ledger.Preempted, ledger.ProviderLost, ledger.ProviderBack, ledger.Forgotten, ledger.Drained:
		case "", ledger.Recalled:
			never = true
		default:
			n++
			if p.at.After(last) {
				last = p.at
			}
		}
	}
	return n, last, never
}

// keptFrom returns why a reservation must not go to a lender now; "" if it may. A lender that
// failed the reservation n times may serve it again 2^(n-1) minutes later, but at most an hour.
func (r *told) keptFrom(id string, now time.Time) string {
	n, last, never := r.failuresOf(id)
	if never {
		return "it serves it or has called it back"
	}
	wait := time.Hour
	if n < 7 {
		wait = time.Minute << n / 2
	}
	if n > 0 && now.Before(last.Add(wait)) {
		return fmt.Sprintf("it failed it, and %s of %s are over", now.Sub(last), wait)
	}
	return ""
}

// hasAdvertised reports whether an agent has advertised since the broker last restarted. A broker waits for the others,
// and meanwhile treats them as silent. Clusters without an agent need not advertise.
func (o *oracle) hasAdvertised(id string) bool {
	return !o.lenders[id].agent || o.lenders[id].epoch != 0
}

// askedBefore returns a lender that comes before one that has failed the reservation, or is the last
// resort of its requester, "" if there is none. If other reservations changed in this step too, or the lender has made room for the
// reservation, the room at the time of the grant is unknown.
func (o *oracle) askedBefore(r *told, id string, now time.Time) string {
	failed := func(id string) bool { n, _, _ := r.failuresOf(id); return n > 0 }
	last := failed(id) || o.suspended.avoids(r.requester, id) && o.before.avoids(r.requester, id)
	if !last || !o.isAlone(r) || r.waiting != nil && r.waiting.preempts == id {
		return ""
	}
	for _, other := range slices.Sorted(maps.Keys(o.lenders)) {
		if !failed(other) && o.hasAdvertised(other) && !o.suspended.avoids(r.requester, other) && o.mayServe(other, r, now) && o.takes(other, r.amounts, nil) {
			return other
		}
	}
	return ""
}

// healedRightly checks that a reservation gets a second provider only if the first one has
// acknowledged it and is silent, has a node that is NotReady for long, or wants the capacity back.
// The reservation may leave the first one only once the second one serves.
func (o *oracle) healedRightly(known *told, r *ledger.Reservation, now time.Time) error {
	var standing []*ledger.Placement
	for i := range r.Placements {
		if p := &r.Placements[i]; r.Stands(p) {
			standing = append(standing, p)
		}
	}
	if len(standing) > 2 {
		return fmt.Errorf("%d placements stand: %+v", len(standing), r.Placements)
	}
	if len(standing) == 2 && len(r.Placements) > len(known.placements) {
		older := standing[0]
		_, calledBack := o.wantsBack(known, older.Number)
		leaves := !known.patient && (!o.lends(older.Provider, now) || known.placements[older.Number-1].isUnready(now)) || calledBack
		if !leaves || older.AcknowledgedAt.IsZero() {
			return fmt.Errorf("it got a placement on %s beside the one on %s, patient: %t", standing[1].Provider, older.Provider, known.patient)
		}
	}
	for i := range known.placements {
		p := &r.Placements[i]
		if p.Withdrawn != ledger.ProviderLost && p.Withdrawn != ledger.NodeLost || known.placements[i].givenUp || r.EndReason != "" {
			continue
		}
		// The serving provider may have recalled the placement in the same step, so that the
		// placement stands beside the next one.
		if !slices.ContainsFunc(standing, func(p *ledger.Placement) bool { return o.isThere(known, p) }) {
			return fmt.Errorf("%s was left, and nobody else serves it: %+v", p.Provider, r.Placements)
		}
	}
	return nil
}

func (o *oracle) isThere(known *told, p *ledger.Placement) bool {
	agent := func(id string) bool { return o.lenders[id] != nil && o.lenders[id].agent }
	return (p.Ready || !agent(known.requester)) && (!p.AcknowledgedAt.IsZero() || !agent(p.Provider))
}

// serve makes the newest provider acknowledge a reservation and the requester report its node
// Ready. It prefers a reservation with two providers.
func (m *machine) serve(c choose) (cause, error) {
	r := m.anyTold(c)
	for _, name := range m.names {
		if m.told[name].standing() > 1 && c(2) == 0 {
			r = m.told[name]
		}
	}
	if r == nil || r.newest() < 0 {
		return cause{}, nil
	}
	n := r.newest()
	report := v1.StatusReport{Placement: int32(n + 1), Role: v1.StatusReportRoleProvider, State: v1.StatusReportStateAcknowledged}
	if err := m.ReportStatus(context.Background(), r.placements[n].provider, r.name, &report); err != nil {
		return cause{}, fmt.Errorf("acknowledging %s: %w", brokerv1alpha1.PlacementName(r.name, report.Placement), err)
	}
	if err := m.catchUp(cause{}); err != nil || r.newest() != n {
		return cause{}, err
	}
	report.Role, report.State = v1.StatusReportRoleConsumer, v1.StatusReportStateReady
	if err := m.ReportStatus(context.Background(), r.requester, r.name, &report); err != nil {
		return cause{}, fmt.Errorf("%s is ready: %w", brokerv1alpha1.PlacementName(r.name, report.Placement), err)
	}
	return cause{}, nil
}

// nodeFails makes a requester report that a placement's node is NotReady. Usually the node was
// Ready before, so that the reservation may move once the node has been NotReady for long enough.
func (m *machine) nodeFails(c choose) (cause, error) {
	var serving []*told
	for _, name := range m.names {
		if r := m.told[name]; r != nil && r.newest() >= 0 && r.placements[r.newest()].ready {
			serving = append(serving, r)
		}
	}
	if len(serving) == 0 || c(4) == 0 {
		return reporting(v1.StatusReportRoleConsumer, v1.StatusReportStateNotReady)(m, c)
	}
	r := oneOf(c, serving...)
	n := int32(r.newest() + 1)
	report := &v1.StatusReport{Placement: n, Role: v1.StatusReportRoleConsumer, State: v1.StatusReportStateNotReady}
	if err := m.ReportStatus(context.Background(), r.requester, r.name, report); err != nil {
		return cause{}, fmt.Errorf("%s is not Ready: %w", brokerv1alpha1.PlacementName(r.name, n), err)
	}
	return cause{}, nil
}

// fallSilent lets time pass while all clusters except one continue to advertise.
func (m *machine) fallSilent(c choose) (cause, error) {
	if _, err := m.pass(staleAfter - time.Second); err != nil {
		return cause{}, err
	}
	if err := m.catchUp(cause{}); err != nil {
		return cause{}, err
	}
	silent := oneOf(c, "paris", "berlin", "rome")
	for _, id := range slices.Sorted(maps.Keys(m.lenders)) {
		l := m.lenders[id]
		if !l.agent || id == silent {
			continue
		}
		m.sequence++
		said := *l
		said.heard, said.epoch, said.sequence = m.now(), m.epochOf(id), m.sequence
		if err := m.repeat(id, &said); err != nil {
			return cause{}, err
		}
		if err := m.catchUp(cause{}); err != nil {
			return cause{}, err
		}
	}
	return m.pass(time.Second)
}

// repeat repeats a cluster's last advertisement, with newly measured links.
func (m *machine) repeat(id string, said *lender, links ...v1.Link) error {
	adv := &v1.Advertisement{ClusterID: id, EndpointURL: endpointOf(id), Links: links, Epoch: said.epoch, Sequence: said.sequence, Allocatable: wire.FromAmounts(said.amounts), Allocated: wire.FromAmounts(said.own), Cost: costOf(said)}
	adv.Capacity = adv.Allocatable
	for name, used := range said.used {
		for _, r := range m.told {
			for i := range r.placements {
				if brokerv1alpha1.PlacementName(r.name, int32(i+1)) == name {
					adv.Usage = append(adv.Usage, v1.Usage{
						Reservation: r.name, Placement: int32(i + 1), Used: wire.FromAmounts(used), Recall: recallOf(said, name, m.now()),
					})
				}
			}
		}
	}
	said.nodes.describe(adv)
	said.created.describe(adv, said.nodes)
	if _, err := m.PublishAdvertisement(context.Background(), id, adv); err != nil {
		return err
	}
	said.used = maps.Clone(said.used)
	maps.DeleteFunc(said.used, func(name string, _ quantity.Amounts) bool {
		return !slices.ContainsFunc(adv.Usage, func(u v1.Usage) bool { return brokerv1alpha1.PlacementName(u.Reservation, u.Placement) == name })
	})
	m.hear(adv, said)
	return m.settleOffers()
}
