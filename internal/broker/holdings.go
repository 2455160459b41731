package broker

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// holdings are everything that one cluster says it has.
type holdings struct {
	provided []provision
	claims   []claim
}

// provision is a placement of which something is left at its provider.
type provision struct {
	ledger.PlacementRef
	requester    string
	amounts      quantity.Amounts
	remaining    *float64
	acknowledged bool
	releasing    bool
}

// claim is a reservation that a requester asked for.
type claim struct {
	ledger.PlacementRef
	provider string
	// request is nil for a reservation that was made in the broker cluster.
	request   *Request
	ready     bool
	releasing bool
}

func (c *claim) key() string {
	if c.request == nil {
		return ""
	}
	return c.request.Key
}

func holdingsOf(clusterID string, said *v1.Holdings) (*holdings, error) {
	h := &holdings{}
	for _, p := range said.Provides {
		amounts, err := wire.ToAmounts(p.Resources)
		if err != nil {
			return nil, fault.New(fault.Invalid, "placement %s: resources: %v", ledger.PlacementName(p.Reservation, p.Placement), err)
		}
		h.provided = append(h.provided, provision{
			PlacementRef: ledger.PlacementRef{Name: p.Reservation, Placement: p.Placement}, requester: p.ConsumerID, amounts: amounts,
			remaining: p.RemainingSeconds, acknowledged: p.Acknowledged, releasing: p.Releasing,
		})
	}
	for i := range said.Consumes {
		c := &said.Consumes[i]
		out := claim{
			PlacementRef: ledger.PlacementRef{Name: c.Reservation, Placement: c.Placement},
			provider:     c.ProviderID, ready: c.Ready, releasing: c.Releasing,
		}
		if c.Key != "" {
			// What could never be granted was not.
			out.request, _ = requestOf(clusterID, c.Key, &c.Request)
		}
		h.claims = append(h.claims, out)
	}
	return h, nil
}

// AnnounceHoldings implements the server's Broker. What the book has lost is entered
// again, and what it knows and the cluster does not has ended. A cluster is believed
// as a provider in what it holds, as a requester in what it wants, and in nothing
// about others.
func (b *Broker) AnnounceHoldings(ctx context.Context, clusterID string, said *v1.Holdings) error {
	h, err := holdingsOf(clusterID, said)
	if err != nil {
		return err
	}
	return b.changeOf(ctx, clusterID, func(t *term) error { return t.takeHoldings(clusterID, h) })
}

func (t *term) takeHoldings(clusterID string, h *holdings) error {
	if !t.wants(clusterID) {
		return nil // nobody asked: what the cluster has is in the book
	}
	if len(h.provided) > 0 && !t.state.HasAgent(clusterID) {
		e := fault.New(fault.Unavailable, "cluster %q provides and was not heard of: advertise first, then announce", clusterID)
		e.RetryAfter = time.Second
		return e
	}
	// What was lost is settled once; later announcements only repeat claims.
	first := t.state.Awaits(clusterID)
	delete(t.recovery.void, clusterID) // what it claims now is looked at anew
	steps := []func() error{
		func() error { return t.takeProvided(clusterID, h.provided, first) },
		func() error { return t.takeClaims(clusterID, h.claims, first) },
		func() error {
			if !first {
				return nil
			}
			return t.record(ledger.Event{Change: &ledger.Announced{ClusterID: clusterID}})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	delete(t.recovery.waiting, clusterID)
	delete(t.recovery.asked, clusterID)
	t.meet(clusterID)
	t.recovery.told[clusterID], t.recovery.claims[clusterID] = true, h.claims
	err := t.settle()
	t.reopen(clusterID)
	return err
}

// reopen lets a cluster that has announced take new reservations, and looks again at
// everything that was waiting for it.
func (t *term) reopen(clusterID string) {
	if t.state.Cluster(clusterID) != nil {
		t.judge(clusterID)
		t.b.feed.cluster(clusterID)
	}
	done := !t.recovering()
	t.state.Reservations(func(r *ledger.Reservation) {
		if done || takesPart(clusterID, r) {
			t.due.set(r.Name, t.deadline(r))
		}
	})
	t.b.opts.Log.Info("cluster has announced what it holds", "cluster", clusterID, "waitingFor", len(t.recovery.waiting))
	t.b.wakeAll()
}

// takeProvided is the provider's part of an announcement.
func (t *term) takeProvided(clusterID string, provided []provision, first bool) error {
	listed := map[ledger.PlacementRef]bool{}
	room := t.adoptionRoom(clusterID, provided)
	for i := range provided {
		p := &provided[i]
		listed[p.PlacementRef] = true
		if err := t.takeProvision(clusterID, p, first, room); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	return t.endUnprovided(clusterID, listed)
}

func (t *term) takeProvision(clusterID string, p *provision, first bool, room *adoptionRoom) error {
	r := t.state.Reservation(p.Name)
	if r == nil || r.Requester == p.requester && r.Adoptable(p.Placement) {
		if why := room.refuses(p); why != "" {
			t.b.opts.Log.Error(nil, "an announced placement is not entered", "cluster", clusterID, "placement", p.String(), "consumer", p.requester, "why", why)
			return nil
		}
		if err := t.adopt(clusterID, p); err != nil || r == nil {
			return err
		}
		return t.restate(r, p)
	}
	known := r.Placement(p.Placement)
	if r.Requester != p.requester || known == nil || known.Provider != clusterID {
		t.b.opts.Log.Error(nil, "cluster announces what the journal gave to others", "cluster", clusterID,
			"placement", p.String(), "consumer", p.requester, "requester", r.Requester)
		return nil
	}
	if first {
		if err := t.restate(r, p); err != nil {
			return err
		}
	}
	return t.resume(r, known, p, first)
}

// resume brings a placement that the book knows to where its provider says that it is.
func (t *term) resume(r *ledger.Reservation, known *ledger.Placement, p *provision, first bool) error {
	switch {
	case !r.Stands(known):
		return nil
	case p.releasing && first:
		// It was given up in the part that is lost.
		return t.record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: p.PlacementRef, Reason: withdrawnBefore}})
	case p.acknowledged && known.AcknowledgedAt.IsZero():
		return t.record(ledger.Event{Change: &ledger.Acknowledge{PlacementRef: p.PlacementRef}})
	default:
		return nil
	}
}

// restate takes a provider's word for how much it keeps, where a change of that is lost.
// One that is in the book it is asked about again.
func (t *term) restate(r *ledger.Reservation, p *provision) error {
	known := r.Placement(p.Placement)
	if known == nil || known.ProviderGone || r.Pending != nil || p.amounts.IsZero() || p.amounts.Equal(r.AgreedWith(known)) {
		return nil
	}
	q := askedFor(r)
	q.Amounts = p.amounts
	t.b.opts.Log.Info("provider keeps other amounts than the journal says", "placement", p.String(), "resources", describe(p.amounts))
	return t.record(ledger.Event{Change: &ledger.Restate{PlacementRef: p.PlacementRef, Amounts: p.amounts, Digest: q.digest()}})
}

// withdrawnBefore is why a placement is given up that was given up in the part of
// the journal that is lost.
const withdrawnBefore = "EndedBefore"

func (t *term) adopt(clusterID string, p *provision) error {
	duration, until := time.Duration(0), t.now().Add(lease)
	if p.remaining != nil {
		duration = max(time.Second, time.Duration(min(*p.remaining, LongestDuration.Seconds())*float64(time.Second)))
		until = t.now().Add(duration)
	}
	a := &ledger.Adopt{
		PlacementRef: p.PlacementRef, Provider: clusterID, Requester: p.requester, Amounts: p.amounts,
		Duration: duration, Until: until, Acknowledged: p.acknowledged,
	}
	if p.releasing {
		a.Withdrawn = withdrawnBefore
	}
	err := t.record(ledger.Event{Change: a})
	if errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrMalformed) || errors.Is(err, ledger.ErrOverbooked) {
		// The rest of the announcement is true all the same.
		t.b.opts.Log.Error(err, "an announced placement cannot be entered", "cluster", clusterID)
		return nil
	}
	if err == nil {
		t.askRequester(p.requester)
		t.b.opts.Log.Info("placement is known again", "placement", p.String(), "target", clusterID, "requester", p.requester)
	}
	return err
}

// endUnprovided gives back what a provider has nothing of any more. What it had not
// accepted it may never have heard of.
func (t *term) endUnprovided(clusterID string, listed map[ledger.PlacementRef]bool) error {
	for _, r := range t.concerned(clusterID) {
		for i := range r.Placements {
			p := &r.Placements[i]
			ref := ledger.PlacementRef{Name: r.Name, Placement: p.Number}
			if p.Provider != clusterID || p.ProviderGone || listed[ref] {
				continue
			}
			if r.Stands(p) {
				if p.AcknowledgedAt.IsZero() || p.AcknowledgedAt.Time().After(t.state.Branch().At) {
					continue
				}
				if err := t.record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: ref, Reason: withdrawnBefore}}); err != nil {
					return err
				}
			}
			if err := t.record(ledger.Event{Change: &ledger.ProviderGone{PlacementRef: ref}}); err != nil {
				return err
			}
		}
	}
	return nil
}

// concerned are the reservations in which a cluster takes part, by name.
func (t *term) concerned(clusterID string) []*ledger.Reservation {
	return slices.SortedFunc(t.newsOf(clusterID).all(t.state), func(a, b *ledger.Reservation) int { return cmp.Compare(a.Name, b.Name) })
}

// unclaimed are the reservations that no requester has claimed, by name.
func (t *term) unclaimed() []*ledger.Reservation {
	var out []*ledger.Reservation
	t.state.Reservations(func(r *ledger.Reservation) {
		if r.Unclaimed && r.EndReason == "" {
			out = append(out, r)
		}
	})
	slices.SortFunc(out, func(a, b *ledger.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// takeClaims is the requester's part of an announcement.
func (t *term) takeClaims(clusterID string, claims []claim, first bool) error {
	wanted := map[string]bool{}
	for i := range claims {
		c := &claims[i]
		r := t.claimed(clusterID, c)
		if r == nil || r.Unclaimed {
			continue
		}
		if err := t.takeClaim(r, c, wanted); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	for _, r := range t.concerned(clusterID) {
		// One that was made in this cluster is its maker's to end.
		if r.Requester != clusterID || r.EndReason != "" || r.Unclaimed || r.Object != nil || wanted[r.Name] || !r.CreatedAt.Time().Before(t.state.Branch().At) {
			continue
		}
		if err := t.release(r, "its requester had given it back before the journal was restored"); err != nil {
			return err
		}
	}
	return nil
}

// claimed is the reservation that a claim is about, nil if it is not in the book.
func (t *term) claimed(clusterID string, c *claim) *ledger.Reservation {
	if r := t.state.Reservation(c.Name); r != nil && r.Requester == clusterID {
		return r
	}
	r, _ := t.state.ByKey(clusterID, c.key())
	return r
}

func (t *term) takeClaim(r *ledger.Reservation, c *claim, wanted map[string]bool) error {
	// A reservation comes once as the request for it and once for each placement: a
	// placement that is taken down says nothing about the whole.
	if !c.releasing {
		wanted[r.Name] = true
	}
	p := r.Placement(c.Placement)
	if !c.ready || c.releasing || p == nil || p.Ready || !r.Stands(p) {
		return nil
	}
	return t.record(ledger.Event{Change: &ledger.NodeReady{
		PlacementRef: ledger.PlacementRef{Name: r.Name, Placement: p.Number}, Ready: true,
	}})
}

// settle joins what providers hold with what requesters want: both sides of a
// reservation have to say so.
func (t *term) settle() error {
	for _, r := range t.unclaimed() {
		if !t.recovery.told[r.Requester] {
			continue
		}
		if err := t.settleUnclaimed(r); err != nil {
			return err
		}
	}
	for clusterID, claims := range t.recovery.claims {
		t.recovery.claims[clusterID] = slices.DeleteFunc(claims, func(c claim) bool { return t.isSettled(clusterID, &c) })
	}
	return nil
}

func (t *term) settleUnclaimed(r *ledger.Reservation) error {
	claims := t.recovery.claims[r.Requester]
	i := slices.IndexFunc(claims, func(c claim) bool { return c.Name == r.Name && !c.releasing })
	if i < 0 {
		return t.release(r, "its requester does not want it any more")
	}
	event := &ledger.Claim{Name: r.Name}
	// The request for it may stand beside its placement.
	if k := slices.IndexFunc(claims, func(c claim) bool { return c.Name == r.Name && !c.releasing && c.request != nil }); k >= 0 {
		q := *claims[k].request
		// Where it has asked for other amounts since, it is told so, and asks again.
		q.Amounts = r.Amounts
		event.Key, event.Digest, event.Tenant, event.Priority, event.Target, event.Terms = q.Key, q.digest(), q.Tenant, q.Priority, q.Target, q.Terms
		event.Patient = q.Patient
	}
	err := t.record(ledger.Event{Change: event})
	if errors.Is(err, ledger.ErrTaken) {
		return t.release(r, "its request was given back or granted anew")
	}
	if err != nil {
		return err
	}
	for k := range claims {
		if claims[k].Name != r.Name {
			continue
		}
		if err := t.takeClaim(r, &claims[k], map[string]bool{}); err != nil {
			return err
		}
	}
	return nil
}

// isSettled drops a claim once nobody can add to it, and notes what is void.
func (t *term) isSettled(clusterID string, c *claim) bool {
	if t.claimed(clusterID, c) != nil {
		return true
	}
	if t.awaits(c.provider) {
		return false
	}
	if c.Placement > 0 && !c.releasing {
		t.recovery.void[clusterID] = append(t.recovery.void[clusterID], c.PlacementRef)
	}
	return true
}

// isClaimed is whether a request waits for the provider of what was granted for it.
func (t *term) isClaimed(q *Request) bool {
	return slices.ContainsFunc(t.recovery.claims[q.Requester], func(c claim) bool { return c.key() == q.Key })
}
