package broker

import (
	"context"
	"errors"
	"time"

	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// quoted is how many candidates a quote explains.
const quoted = 100

// RequestQuote implements the server's Broker. It decides as RequestReservation does,
// and enters nothing into the book but what clusters had offered already, and what is to
// be held.
func (b *Broker) RequestQuote(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	q, err := requestOf(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	hold, err := holdOf(key, req)
	if err != nil {
		return nil, err
	}
	var answer *v1.Quote
	err = b.changeOf(ctx, clusterID, func(t *session) error {
		if hold == 0 {
			answer, _, err = t.quote(q)
			return err
		}
		answer, err = t.keep(q, hold)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// quote also returns the choice, nil where there is none.
func (t *session) quote(q *Request) (*v1.Quote, *choice, error) {
	if err := t.checkAsker(q); err != nil {
		return nil, nil, err
	}
	out := &v1.Quote{
		Resources: wire.FromAmounts(q.Amounts), RatesDate: t.config().Rates.Date,
		Hours: hoursOf(q.Duration),
	}
	choice, err := t.place(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate {
		out.Message = why.Detail
	} else if err != nil {
		return nil, nil, err
	} else {
		out.ClusterID = choice.winner
	}
	candidates := t.priced(q, out)
	out.Candidates = t.config().Visibility.of(candidates, out.ClusterID, q.Target)
	return out, choice, nil
}

// priced are the candidates with what the request costs there in all; the quote gets the
// price of its cluster, and how many were rejected.
func (t *session) priced(q *Request, out *v1.Quote) []v1.Candidate {
	verdicts, _, rejected := t.verdicts(t.sought(q, nil), q.Target, quoted)
	out.Rejected = rejected
	all := make([]v1.Candidate, len(verdicts))
	for i, v := range verdicts {
		c := shownCandidate(candidateOf(v, out.ClusterID))
		if v.Bill.Currency != "" {
			c.PriceTotal = decision.Money(v.Bill.Total)
		}
		if all[i] = c; c.ClusterID == out.ClusterID {
			out.PricePerHour, out.PriceTotal, out.Currency = c.PricePerHour, c.PriceTotal, c.Currency
		}
	}
	return all
}

// hoursOf is for how long a price in all is.
func hoursOf(duration time.Duration) float64 { return decision.Lasts(duration).Hours() }
