package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/failpoint"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

const forgottenBecause = "an administrator removed the cluster %q from the broker"

// ForgetCluster removes a cluster that an administrator declares gone for good. It ends the
// reservations that the cluster requested, moves the reservations of others to other providers,
// and frees all capacity without waiting for the cluster to confirm. The cluster gets no
// reservations until it advertises again.
//
// ForgetCluster refuses to remove a cluster that is neither denied nor Inactive, because the
// cluster's agent may still confirm. It does nothing for a cluster without an agent. Every step
// depends on the book alone, so a new call after a crash continues where the last one stopped.
func (b *Broker) ForgetCluster(ctx context.Context, clusterID string) error {
	return b.commitPlan(ctx, func(s *session) error {
		if c := s.book.Cluster(clusterID); c == nil || !c.Agent {
			return nil
		}
		if err := s.checkForgettable(clusterID); err != nil {
			return err
		}
		return s.forgetCluster(clusterID)
	})
}

// checkForgettable returns an error if the cluster's agent may still confirm what the cluster
// holds, or if the broker cannot know that now.
func (s *session) checkForgettable(clusterID string) error {
	if !s.b.configured {
		return term.ErrUnconfigured()
	}
	if !s.Recovery.SettledAt().IsZero() {
		return s.Recovery.ErrRecovering()
	}
	p := s.Presence(clusterID)
	if p.Phase == term.Inactive || s.IsDenied(s.book.Cluster(clusterID)) {
		return nil
	}
	return fault.New(fault.Conflict,
		"cluster %q advertised %s ago: uninstall its agent, add it to deniedClusters of the BrokerConfig, or wait until it has been silent for %s",
		clusterID, s.Now().Sub(p.Heard).Round(time.Second), s.currentConfig().StaleThreshold)
}

func (s *session) forgetCluster(clusterID string) error {
	s.log.Info("an administrator removes a cluster", "cluster", clusterID)
	for _, held := range s.book.Quotes().AllHeld() {
		if held.Provider != clusterID && held.Requester != clusterID {
			continue
		}
		if err := s.Quotes.End(held, ledger.Administrator(""), ledger.HoldDenied); err != nil {
			return err
		}
	}
	for _, r := range s.ReservationsOf(clusterID) {
		if r.Requester != clusterID {
			continue
		}
		if err := s.EndReservation(r, ledger.Administrator(""), fmt.Sprintf(forgottenBecause, clusterID)); err != nil {
			return err
		}
	}
	if err := s.leaveProvider(clusterID); err != nil {
		return err
	}
	failpoint.Hit(failpoint.BrokerForgetting)
	if err := s.Record(ledger.Event{By: ledger.Administrator(""), Change: &ledger.ForgetCluster{ClusterID: clusterID}}); err != nil {
		return err
	}
	// After a restore, requesters may have announced placements that are valid only once this
	// cluster also announces them. A forgotten cluster will not announce them, so MatchClaims
	// drops them.
	return s.Recovery.MatchClaims()
}

func (s *session) leaveProvider(clusterID string) error {
	for _, r := range s.ReservationsOf(clusterID) {
		for i := range r.Placements {
			p := &r.Placements[i]
			if p.Provider != clusterID || !r.Stands(p) {
				continue
			}
			if err := s.WithdrawPlacement(r, p, ledger.Forgotten); err != nil {
				return err
			}
			break // at most one placement of a reservation stands on a provider
		}
	}
	return nil
}
