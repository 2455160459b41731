package broker

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// forgottenBecause is the end reason shown for the reservations that a forgotten cluster had requested.
const forgottenBecause = "an administrator removed the cluster %q from the broker"

// ForgetCluster removes a cluster that an administrator declares gone for good. It ends what the
// cluster requested, moves what others run there, and frees everything without waiting for the
// cluster's confirmation. Nothing is granted on the cluster until it advertises anew.
//
// It refuses a cluster that is neither denied nor Inactive: its agent may confirm. It does
// nothing for a cluster without an agent. Every step follows from the book, so that a call after
// a crash continues.
func (b *Broker) ForgetCluster(ctx context.Context, clusterID string) error {
	return b.commitPlan(ctx, func(s *session) error {
		if c := s.book.Cluster(clusterID); c == nil || !c.Agent {
			return nil
		}
		if err := s.clusters.checkForgettable(clusterID); err != nil {
			return err
		}
		return s.forgetCluster(clusterID)
	})
}

// checkForgettable refuses to forget a cluster whose agent can still confirm what it holds.
func (cs *clusters) checkForgettable(clusterID string) error {
	if !cs.s.b.configured {
		return errUnconfigured()
	}
	if !cs.s.recovery.recoveryDeadline().IsZero() {
		return cs.s.recovery.errRecovering()
	}
	p := cs.presenceOf(clusterID)
	if p.phase == ClusterInactive || cs.isDenied(cs.s.book.Cluster(clusterID)) {
		return nil
	}
	return fault.New(fault.Conflict,
		"the broker heard of cluster %q %s ago: uninstall its agent, add it to deniedClusters of the BrokerConfig, or wait until it has been silent for %s",
		clusterID, cs.s.now().Sub(p.heard).Round(time.Second), cs.s.config().StaleThreshold)
}

func (s *session) forgetCluster(clusterID string) error {
	s.log.Info("an administrator removes a cluster", "cluster", clusterID)
	for _, held := range s.book.Quotes().AllHeld() {
		if held.Provider != clusterID && held.Requester != clusterID {
			continue
		}
		if err := s.quotes.endHold(held, ledger.HoldDenied); err != nil {
			return err
		}
	}
	for _, r := range s.news.reservationsOf(clusterID) {
		if r.Requester != clusterID {
			continue
		}
		if err := s.reservations.releaseReservation(r, fmt.Sprintf(forgottenBecause, clusterID)); err != nil {
			return err
		}
	}
	if err := s.leaveProvider(clusterID); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerForgetting)
	if err := s.record(ledger.Event{Change: &ledger.ForgetCluster{ClusterID: clusterID}}); err != nil {
		return err
	}
	// Requesters may have claimed placements that only this cluster could announce.
	return s.recovery.matchClaims()
}

// leaveProvider gives up all placements on a provider that will not return, and finds others.
func (s *session) leaveProvider(clusterID string) error {
	for _, r := range s.news.reservationsOf(clusterID) {
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider != clusterID || !r.Stands(p) {
				continue
			}
			if err := s.reservations.withdrawPlacement(r, p, ledger.ProviderLost); err != nil {
				return err
			}
			break // at most one placement of a reservation stands on a provider
		}
	}
	return nil
}

// changedNow returns the reservations that the newest event has changed, by name.
func (s *session) changedNow() []*ledger.Reservation {
	var out []*ledger.Reservation
	s.book.Reservations(func(r *ledger.Reservation) {
		if r.Changed == s.book.Position() {
			out = append(out, r)
		}
	})
	slices.SortFunc(out, func(a, b *ledger.Reservation) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// dropCluster drops what is known of a forgotten cluster beyond the book.
func (cs *clusters) dropCluster(clusterID string) {
	cs.updateFreshness(clusterID) // ends its pauses in the market
	delete(cs.byID, clusterID)
	cs.upsertCandidate(cs.s.book.Cluster(clusterID))
	cs.s.b.feed.addCluster(clusterID)
}

// dropCluster drops what the recovery awaits of a forgotten cluster.
func (rc *recovery) dropCluster(clusterID string) {
	for _, of := range []map[string]bool{rc.waiting, rc.asked, rc.announced, rc.seen} {
		delete(of, clusterID)
	}
	delete(rc.claims, clusterID)
	delete(rc.void, clusterID)
}

// dropCluster drops the reports of a forgotten cluster, and those about it.
func (l *links) dropCluster(clusterID string) {
	for provider := range l.of[clusterID] {
		l.dropLink(clusterID, provider)
	}
	delete(l.of, clusterID)
	for requester, mine := range l.of {
		if _, known := mine[clusterID]; known {
			l.dropLink(requester, clusterID)
		}
	}
	delete(l.endpoints, clusterID)
	l.setDeadline(clusterID)
}
