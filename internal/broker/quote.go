package broker

import (
	"context"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/quotes"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
)

// RequestQuote implements the server's Broker. It chooses a provider as RequestReservation does,
// and records the pending offers on which the choice depends. It records the quote itself only if
// the request asks to hold the capacity.
func (b *Broker) RequestQuote(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	q, err := requests.Read(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	hold, err := quotes.ReadHoldTime(key, req)
	if err != nil {
		return nil, err
	}
	return answerPlan(ctx, b, clusterID, func(s *session) (*v1.Quote, error) {
		if hold != 0 {
			return s.Quotes.Hold(q, hold)
		}
		answer, _, err := s.Quotes.Price(q)
		if err == nil {
			answer.Warnings = append(s.listUnadvertised(q), answer.Warnings...)
		}
		return answer, err
	})
}

// ReleaseQuote implements the server's Broker.
func (b *Broker) ReleaseQuote(ctx context.Context, clusterID, nameOrKey string) error {
	return b.commitPlanFor(ctx, clusterID, func(s *session) error {
		if known, err := s.Quotes.Release(clusterID, nameOrKey); known || err != nil {
			return err
		}
		return term.FaultOf(s.Limiter.CloseKey(clusterID, quotes.Key(nameOrKey), ledger.UserOf(clusterID, "")))
	})
}

// QuoteObject returns the decision that ReserveObject would make about the request of a Reservation object. It holds
// nothing, and the object need not exist.
func QuoteObject(ctx context.Context, b *Broker, q requests.Request) (*v1.Quote, error) {
	if err := q.Complete(); err != nil {
		return nil, err
	}
	return answerPlan(ctx, b, "", func(s *session) (*v1.Quote, error) {
		if q.Duration == 0 {
			q.Duration = b.config.DefaultTTL
		}
		answer, _, err := s.Quotes.Price(&q)
		return answer, err
	})
}

// listUnadvertised returns a warning for each value in the constraints of a request that no cluster
// advertises. There is none if the requester may not know the other clusters.
func (s *session) listUnadvertised(q *requests.Request) (warnings []string) {
	if !s.currentConfig().Visibility.ShowsAll() {
		return nil
	}
	for _, u := range s.market.Unadvertised(q.Demands().Constraints, q.Requester) {
		warnings = append(warnings, u.Field+": "+u.Text)
	}
	return warnings
}

// CheckSettled implements quotes.Session.
func (s *session) CheckSettled(provider string) error {
	if s.Recovery.IsBlocked(provider) || s.Recovery.IsUnseen(s.book.Cluster(provider)) {
		return s.Recovery.ErrRecovering()
	}
	return nil
}

// IsShutOut implements quotes.Session.
func (s *session) IsShutOut(requester, provider string) bool {
	_, cordoned := s.Drains.Find(provider)
	return s.b.configured && (cordoned || s.CheckRequester(requester) != nil || s.IsDenied(s.book.Cluster(provider)))
}

// NoteHold implements quotes.Session.
func (s *session) NoteHold(held *ledger.Quote) {
	s.RefreshCapacity(held.Provider)
	if held.Ended != "" {
		s.NoteFreed(held.Provider)
		s.NoteAffinity(&held.Reserve)
	}
}
