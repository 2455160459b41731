package broker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/ledger"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/requests"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/term"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
	"github.com/mehdiazizian/liqo-resource-broker/internal/wire"
)

// maxQuoteCandidates is how many candidates are explained in a quote.
const maxQuoteCandidates = 100

// RequestQuote implements the server's Broker. It chooses a provider as RequestReservation does,
// and records the pending offers on which the choice depends. It records the quote itself only if
// the request asks to hold the capacity.
func (b *Broker) RequestQuote(ctx context.Context, clusterID, key string, req *v1.ReservationRequest) (*v1.Quote, error) {
	q, err := requests.Read(clusterID, key, req)
	if err != nil {
		return nil, err
	}
	hold, err := readHoldTime(key, req)
	if err != nil {
		return nil, err
	}
	var answer *v1.Quote
	err = b.commitPlanFor(ctx, clusterID, func(s *session) error {
		if hold == 0 {
			if answer, _, err = s.quotes.priceRequest(q); err == nil {
				answer.Warnings = append(s.quotes.listUnadvertised(q), answer.Warnings...)
			}
			return err
		}
		answer, err = s.quotes.holdQuote(q, hold)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// QuoteObject returns the decision that ReserveObject would make about the request of a Reservation object. It holds
// nothing, and the object need not exist.
func QuoteObject(ctx context.Context, b *Broker, q Request) (*v1.Quote, error) {
	if err := q.Complete(); err != nil {
		return nil, err
	}
	var answer *v1.Quote
	err := b.commitPlan(ctx, func(s *session) error {
		if q.Duration == 0 {
			q.Duration = b.config.DefaultTTL
		}
		var err error
		answer, _, err = s.quotes.priceRequest(&q)
		return err
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// priceRequest chooses a provider for a request and prices it. If no cluster can serve the request,
// the returned decided is nil and the quote says why.
func (qs *quotes) priceRequest(q *Request) (*v1.Quote, *term.Decision, error) {
	if err := qs.s.reservations.checkAllowed(q); err != nil {
		return nil, nil, err
	}
	out := &v1.Quote{
		Resources: wire.FromAmounts(q.Amounts), RatesDate: qs.s.config().Rates.Date,
		Hours: billedHours(q.Duration),
	}
	choice, err := qs.s.reservations.decideNew(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate {
		out.Message = why.Detail
	} else if err != nil {
		return nil, nil, err
	} else {
		out.ClusterID = choice.Provider
		out.Warnings = warnOfNodeSize(q, qs.s.book.Cluster(choice.Provider))
	}
	candidates := qs.priceCandidates(q, out)
	out.Candidates = qs.s.config().Visibility.OfQuote(candidates, out.ClusterID, q.Target)
	return out, choice, nil
}

// listUnadvertised returns a warning for each value in the constraints of a request that no cluster
// advertises. There is none if the requester may not know the other clusters.
func (qs *quotes) listUnadvertised(q *Request) (warnings []string) {
	if !qs.s.config().Visibility.ShowsAll() {
		return nil
	}
	for _, u := range qs.s.market.Unadvertised(q.Demands().Constraints, q.Requester) {
		warnings = append(warnings, u.Field+": "+u.Text)
	}
	return warnings
}

// warnOfNodeSize returns a warning if a request without pod shapes asks for more of a resource than is
// free on any single node of its provider that it may use.
func warnOfNodeSize(q *Request, provider *ledger.Cluster) []string {
	demands := q.Demands()
	if provider == nil || len(demands.PodShapes) > 0 {
		return nil
	}
	k := cmp.Or(demands.Constraints, &brokerv1alpha1.Constraints{})
	var largest quantity.Amounts
	for _, s := range provider.Shapes {
		if requirements.HasAll(s.Labels, k.NodeSelector) && requirements.TolerateAll(k.Tolerations, s.Taints) {
			largest = largest.Max(s.Free)
		}
	}
	onOneNode := q.Amounts.Clone()
	delete(onOneNode, corev1.ResourcePods)
	lack, fits := quantity.Fits(onOneNode, largest)
	if fits || len(largest) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("no node of %s has more than %s of the %s %s free: a pod that requests more stays Pending; name pods of that size in podShapes, so that they fit",
		provider.ClusterID, quantity.Format(lack.Resource, lack.Have), quantity.Format(lack.Resource, lack.Need), lack.Resource)}
}

// priceCandidates returns the candidates with the total price of the request on each. It also sets
// the price of the chosen cluster and the numbers of rejected candidates in out.
func (qs *quotes) priceCandidates(q *Request, out *v1.Quote) []v1.QuotedCandidate {
	judged := qs.s.decider.listVerdicts(qs.s.decider.newDecisionRequest(q, nil), q.Target, maxQuoteCandidates)
	out.Rejected = judged.rejected
	all := make([]v1.QuotedCandidate, len(judged.verdicts))
	for i, v := range judged.verdicts {
		c := v1.QuotedCandidate{Candidate: candidateOf(v, out.ClusterID)}
		if v.Bill.Currency != "" {
			c.PriceTotal = decision.Money(v.Bill.Total)
		}
		if all[i] = c; c.ClusterID == out.ClusterID {
			out.PricePerHour, out.PriceTotal, out.Currency = c.PricePerHour, c.PriceTotal, c.Currency
		}
	}
	return all
}

// billedHours returns the number of hours that a total price covers.
func billedHours(duration time.Duration) float64 { return decision.Lasts(duration).Hours() }
