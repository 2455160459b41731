package recovery

import (
	"cmp"
	"errors"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// Holdings is the content of one cluster's announcement: the placements that it provides and the
// reservations that it claims as a requester.
type Holdings struct {
	provided []announcedPlacement
	claims   []claim
}

// announcedPlacement is a placement for which its provider still holds capacity or objects.
type announcedPlacement struct {
	ledger.PlacementRef
	requester    string
	amounts      quantity.Amounts
	remaining    *float64
	acknowledged bool
	provisioning bool
	releasing    bool
}

// claim is an entry that a requester announces: the request of a reservation, or one of the
// reservation's placements.
type claim struct {
	ledger.PlacementRef
	provider string
	// request is the announced request. It is nil if the entry has none, as for a reservation that
	// was created in the broker cluster.
	request   *requests.Request
	ready     bool
	releasing bool
}

func (c *claim) claimKey() string {
	if c.request == nil {
		return ""
	}
	return c.request.Key
}

// ReadHoldings reads the announcement of a cluster. It returns fault.Invalid for impossible amounts.
func ReadHoldings(clusterID string, said *v1.Holdings) (*Holdings, error) {
	h := &Holdings{}
	for _, p := range said.Provides {
		amounts, err := wire.ToAmounts(p.Resources)
		if err != nil {
			return nil, fault.New(fault.Invalid, "placement %s: resources: %v", brokerv1alpha1.PlacementName(p.Reservation, p.Placement), err)
		}
		h.provided = append(h.provided, announcedPlacement{
			PlacementRef: ledger.PlacementRef{Name: p.Reservation, Placement: p.Placement}, requester: p.ConsumerID, amounts: amounts,
			remaining: p.RemainingSeconds, acknowledged: p.Acknowledged, provisioning: p.Provisioning, releasing: p.Releasing,
		})
	}
	for i := range said.Consumes {
		c := &said.Consumes[i]
		out := claim{
			PlacementRef: ledger.PlacementRef{Name: c.Reservation, Placement: c.Placement},
			provider:     c.ProviderID, ready: c.Ready, releasing: c.Releasing,
		}
		if c.Key != "" {
			// An invalid request was never granted, so the claim is kept without the request.
			out.request, _ = requests.Read(clusterID, c.Key, &c.Request)
		}
		h.claims = append(h.claims, out)
	}
	return h, nil
}

// TakeHoldings adds reservations that the book has lost and ends reservations that the cluster no longer
// has. It refuses an announcement that is not awaited with fault.Conflict.
func (rc *Recovery) TakeHoldings(clusterID string, h *Holdings) error {
	if !rc.WantsAnnouncement(clusterID) {
		if rc.announced[clusterID] {
			return nil // the answer to this announcement was lost
		}
		return fault.New(fault.Conflict, "no announcement of cluster %q is awaited now: fetch the instructions without a cursor, their field announce says when one is", clusterID)
	}
	if len(h.provided) > 0 && !rc.s.Book().HasAgent(clusterID) {
		return fault.New(fault.Unavailable, "cluster %q announces placements but has not advertised: advertise first, then announce", clusterID).RetryIn(time.Second)
	}
	// Only the first announcement after a restore ends the reservations that it does not list.
	first := rc.s.Book().Awaits(clusterID)
	delete(rc.void, clusterID) // MatchClaims computes this again from the new claims
	err := rc.takeProvided(clusterID, h.provided, first)
	if err == nil {
		err = rc.takeClaims(clusterID, h.claims, first)
	}
	if err == nil && first {
		err = rc.s.Record(ledger.Event{Change: &ledger.Announced{ClusterID: clusterID}})
	}
	if err != nil {
		return err
	}
	delete(rc.waiting, clusterID)
	delete(rc.asked, clusterID)
	rc.MarkSeen(clusterID)
	rc.announced[clusterID], rc.claims[clusterID] = true, h.claims
	err = rc.MatchClaims()
	rc.unblockCluster(clusterID)
	return err
}

// unblockCluster lets a cluster that has announced its holdings get new reservations. It also
// reschedules reservations that waited for the announcement, and wakes waiting calls.
func (rc *Recovery) unblockCluster(clusterID string) {
	if rc.s.Book().Cluster(clusterID) != nil {
		rc.s.UpdateCluster(clusterID)
		rc.s.PublishCluster(clusterID)
	}
	done := !rc.IsRecovering()
	rc.s.Book().Reservations(func(r *ledger.Reservation) {
		if done || r.Involves(clusterID) {
			rc.s.Reschedule(r)
		}
	})
	rc.s.Log().Info("cluster has announced its holdings", "cluster", clusterID, "waitingFor", len(rc.waiting))
	rc.s.WakeCallers()
}

// takeProvided processes the placements that a provider announces. If first is true, it also calls
// endUnannounced for the placements that the provider does not announce.
func (rc *Recovery) takeProvided(clusterID string, provided []announcedPlacement, first bool) error {
	listed := map[ledger.PlacementRef]bool{}
	room := rc.newAdoptionRoom(clusterID, provided)
	for i := range provided {
		p := &provided[i]
		listed[p.PlacementRef] = true
		if err := rc.takePlacement(clusterID, p, first, room); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	return rc.endUnannounced(clusterID, listed)
}

func (rc *Recovery) takePlacement(clusterID string, p *announcedPlacement, first bool, room *adoptionRoom) error {
	r := rc.s.Book().Reservation(p.Name)
	if r == nil || r.Requester == p.requester && r.Adoptable(p.Placement) {
		if why := room.refusePlacement(p); why != "" {
			rc.s.Log().Info("WARNING: announced placement rejected", "cluster", clusterID, "placement", p.String(), "consumer", p.requester, "why", why)
			return nil
		}
		if err := rc.adoptPlacement(clusterID, p); err != nil {
			return err
		}
		if r == nil {
			if r = rc.s.Book().Reservation(p.Name); r == nil {
				return nil // it could not be adopted
			}
		} else if err := rc.takeOverAmounts(r, p); err != nil {
			return err
		}
		if known := r.Placement(p.Placement); known != nil {
			return rc.resumePlacement(r, known, p, false)
		}
		return nil
	}
	known := r.Placement(p.Placement)
	if r.Requester != p.requester || known == nil || known.Provider != clusterID {
		rc.s.Log().Error(nil, "cluster claims capacity the journal granted to others", "cluster", clusterID,
			"placement", p.String(), "consumer", p.requester, "requester", r.Requester)
		return nil
	}
	if first {
		if err := rc.takeOverAmounts(r, p); err != nil {
			return err
		}
	}
	return rc.resumePlacement(r, known, p, first)
}

// resumePlacement records what a provider's announcement of a placement in the book shows and the book
// has lost: that the placement was given up (only if first is true), that it was acknowledged, or that the
// provider creates nodes for it.
func (rc *Recovery) resumePlacement(r *ledger.Reservation, known *ledger.Placement, p *announcedPlacement, first bool) error {
	switch {
	case !r.Stands(known):
		return nil
	case p.releasing && first:
		// The event that withdrew the placement is lost.
		return rc.s.Record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: p.PlacementRef, Reason: withdrawnBefore}})
	case p.acknowledged && known.AcknowledgedAt.IsZero():
		return rc.s.Record(ledger.Event{Change: &ledger.Acknowledge{PlacementRef: p.PlacementRef}})
	case p.provisioning && known.AcknowledgedAt.IsZero() && r.ProvisioningOf(known) == nil && rc.s.Book().Cluster(known.Provider).Elastic != nil:
		return rc.s.Record(ledger.Event{Change: &ledger.Provision{PlacementRef: p.PlacementRef}})
	default:
		return nil
	}
}

// takeOverAmounts changes the amounts of a placement to those that its provider announces, if the
// journal has lost the event that changed them. It does nothing while a change is pending in the
// book, because the provider will be asked about that change again.
func (rc *Recovery) takeOverAmounts(r *ledger.Reservation, p *announcedPlacement) error {
	known := r.Placement(p.Placement)
	if known == nil || known.ProviderGone || r.Pending != nil || p.amounts.IsZero() || p.amounts.Equal(r.AgreedWith(known)) {
		return nil
	}
	q := requests.Of(r)
	q.Amounts = p.amounts
	rc.s.Log().Info("provider holds amounts that differ from the journal", "placement", p.String(), "resources", p.amounts.Describe())
	return rc.s.Record(ledger.Event{Change: &ledger.Restate{PlacementRef: p.PlacementRef, Amounts: p.amounts, Digest: q.Digest()}})
}

const withdrawnBefore = "EndedBefore"

func (rc *Recovery) adoptPlacement(clusterID string, p *announcedPlacement) error {
	duration, until := time.Duration(0), rc.s.Now().Add(term.Lease)
	if p.remaining != nil {
		duration = max(time.Second, time.Duration(min(*p.remaining, requests.LongestDuration.Seconds())*float64(time.Second)))
		until = rc.s.Now().Add(duration)
	}
	a := &ledger.Adopt{
		PlacementRef: p.PlacementRef, Provider: clusterID, Requester: p.requester, Amounts: p.amounts,
		Duration: duration, Until: until, Acknowledged: p.acknowledged,
	}
	asked := &ledger.Request{Amounts: p.amounts}
	if known := rc.s.Book().Reservation(p.Name); known != nil {
		asked = &known.Request
	}
	a.Price = rc.s.Book().Cluster(clusterID).PriceFor(asked)
	if p.releasing {
		a.Withdrawn = withdrawnBefore
	}
	err := rc.s.Record(ledger.Event{Change: a})
	if errors.Is(err, ledger.ErrTaken) || errors.Is(err, ledger.ErrMalformed) || errors.Is(err, ledger.ErrOverbooked) {
		// The other placements of the announcement are still processed.
		rc.s.Log().Error(err, "adopting an announced placement failed", "cluster", clusterID)
		return nil
	}
	if err == nil {
		rc.askRequester(p.requester)
		rc.s.Log().Info("placement adopted", "placement", p.String(), "target", clusterID, "requester", p.requester)
	}
	return err
}

// endUnannounced gives up placements in the book that their provider did not announce, and frees their
// capacity. It keeps a placement that was not yet acknowledged when the restore was noticed, because
// the provider may never have received it.
func (rc *Recovery) endUnannounced(clusterID string, listed map[ledger.PlacementRef]bool) error {
	for _, r := range rc.s.ReservationsOf(clusterID) {
		for i := range r.Placements {
			p := &r.Placements[i]
			ref := r.Ref(p)
			if p.Provider != clusterID || p.ProviderGone || listed[ref] {
				continue
			}
			if r.Stands(p) {
				if p.AcknowledgedAt.IsZero() || p.AcknowledgedAt.Time().After(rc.s.Book().Lineages().Present().At) {
					continue
				}
				if err := rc.s.Record(ledger.Event{Change: &ledger.Withdraw{PlacementRef: ref, Reason: withdrawnBefore}}); err != nil {
					return err
				}
			}
			if err := rc.s.Record(ledger.Event{Change: &ledger.ProviderGone{PlacementRef: ref}}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (rc *Recovery) unclaimedReservations() []*ledger.Reservation {
	var out []*ledger.Reservation
	rc.s.Book().Reservations(func(r *ledger.Reservation) {
		if r.Unclaimed && r.EndReason == "" {
			out = append(out, r)
		}
	})
	slices.SortFunc(out, func(a, b *ledger.Reservation) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// takeClaims processes the claims that a requester announces. If first is true, it ends the
// requester's reservations that are not among the claims, except unclaimed ones, those that were
// created after the restore was noticed, and those that Reservation objects requested.
func (rc *Recovery) takeClaims(clusterID string, claims []claim, first bool) error {
	wanted := map[string]bool{}
	for i := range claims {
		c := &claims[i]
		r := rc.claimedReservation(clusterID, c)
		if r == nil || r.Unclaimed {
			continue
		}
		if err := rc.takeClaim(r, c, wanted); err != nil {
			return err
		}
	}
	if !first {
		return nil
	}
	for _, r := range rc.s.ReservationsOf(clusterID) {
		// A reservation that an object requested ends when the object is deleted.
		if r.Requester != clusterID || r.EndReason != "" || r.Unclaimed || r.Object != nil || wanted[r.Name] || !r.CreatedAt.Time().Before(rc.s.Book().Lineages().Present().At) {
			continue
		}
		if err := rc.s.EndReservation(r, ledger.UserOf(r.Requester, ""), "its requester had released it before the journal was restored"); err != nil {
			return err
		}
	}
	return nil
}

func (rc *Recovery) claimedReservation(clusterID string, c *claim) *ledger.Reservation {
	if r := rc.s.Book().Reservation(c.Name); r != nil && r.Requester == clusterID {
		return r
	}
	r, _ := rc.s.Book().ByKey(clusterID, c.claimKey())
	return r
}

func (rc *Recovery) takeClaim(r *ledger.Reservation, c *claim, wanted map[string]bool) error {
	// The requester announces the request and each placement separately. Even if it takes one
	// placement down, it may still want the reservation.
	if !c.releasing {
		wanted[r.Name] = true
	}
	p := r.Placement(c.Placement)
	if !c.ready || c.releasing || p == nil || p.Ready || !r.Stands(p) {
		return nil
	}
	return rc.s.Record(ledger.Event{Change: &ledger.NodeReady{PlacementRef: r.Ref(p), Ready: true}})
}

// MatchClaims decides about the unclaimed reservations, which providers have announced and
// requesters have not confirmed yet. It keeps a reservation that its requester claims, and ends it
// if the requester has announced its holdings without that reservation.
func (rc *Recovery) MatchClaims() error {
	for _, r := range rc.unclaimedReservations() {
		if !rc.announced[r.Requester] {
			continue
		}
		if err := rc.matchClaim(r); err != nil {
			return err
		}
	}
	for clusterID, claims := range rc.claims {
		rc.claims[clusterID] = slices.DeleteFunc(claims, func(c claim) bool { return rc.isProcessed(clusterID, &c) })
	}
	return nil
}

func (rc *Recovery) matchClaim(r *ledger.Reservation) error {
	claims := rc.claims[r.Requester]
	i := slices.IndexFunc(claims, func(c claim) bool { return c.Name == r.Name && !c.releasing })
	if i < 0 {
		return rc.s.EndReservation(r, ledger.UserOf(r.Requester, ""), "its requester no longer wants it")
	}
	event, by := &ledger.Claim{Name: r.Name}, ledger.UserOf(r.Requester, "")
	// The requester announces the request and each placement separately, so the request may be
	// in another claim.
	if k := slices.IndexFunc(claims, func(c claim) bool { return c.Name == r.Name && !c.releasing && c.request != nil }); k >= 0 {
		q := *claims[k].request
		// If the requester wants other amounts by now, it sees the difference in the answer to its
		// next call and asks for a change.
		q.Amounts = r.Amounts
		event.Request, event.Digest, by = &q.Request, q.Digest(), q.By
	}
	err := rc.s.Record(ledger.Event{By: by, Change: event})
	if errors.Is(err, ledger.ErrTaken) {
		return rc.s.EndReservation(r, ledger.UserOf(r.Requester, ""), "its request was released or granted anew")
	}
	if err != nil {
		return err
	}
	for k := range claims {
		if claims[k].Name != r.Name {
			continue
		}
		if err := rc.takeClaim(r, &claims[k], map[string]bool{}); err != nil {
			return err
		}
	}
	return nil
}

// isProcessed reports whether a claim can be dropped: its reservation is in the book, or its
// provider has announced its holdings without the placement. In the second case, isProcessed adds
// the placement to rc.void.
func (rc *Recovery) isProcessed(clusterID string, c *claim) bool {
	if rc.claimedReservation(clusterID, c) != nil {
		return true
	}
	if rc.IsBlocked(c.provider) {
		return false
	}
	if c.Placement > 0 && !c.releasing {
		rc.void[clusterID] = append(rc.void[clusterID], c.PlacementRef)
	}
	return true
}

func (rc *Recovery) isClaimed(q *requests.Request) bool {
	return slices.ContainsFunc(rc.claims[q.Requester], func(c claim) bool { return c.claimKey() == q.Key })
}

// VoidPlacements returns the placements that a requester claimed and that no provider knows.
func (rc *Recovery) VoidPlacements(requester string) []ledger.PlacementRef { return rc.void[requester] }
