package quotes

import (
	"cmp"
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

// Price chooses a provider for a request and prices it. If no cluster can serve the request,
// the returned decision is nil and the quote says why.
func (qs *Quotes) Price(q *requests.Request) (*v1.Quote, *term.Decision, error) {
	if err := qs.s.CheckAllowed(q); err != nil {
		return nil, nil, err
	}
	out := &v1.Quote{
		Resources: wire.FromAmounts(q.Amounts), RatesDate: qs.s.RatesDate(),
		Hours: billedHours(q.Duration),
	}
	choice, err := qs.s.DecideNew(q)
	if why, ok := errors.AsType[*fault.Error](err); ok && why.Reason == fault.NoCandidate {
		out.Message = why.Detail
		if undo := qs.s.SupposeElastic(); undo != nil {
			defer undo()
		}
	} else if err != nil {
		return nil, nil, err
	} else if out.ClusterID = choice.Provider; choice.OnNewNodes {
		defer qs.s.SupposeElastic()()
	} else {
		out.Warnings = warnOfNodeSize(q, qs.s.Book().Cluster(choice.Provider))
	}
	candidates := qs.priceCandidates(q, out)
	out.Candidates = qs.s.Visibility().OfQuote(candidates, out.ClusterID, q.Target)
	return out, choice, nil
}

// warnOfNodeSize returns a warning if a request without pod shapes asks for more of a resource than is
// free on any single node of its provider that it may use.
func warnOfNodeSize(q *requests.Request, provider *ledger.Cluster) []string {
	demands := q.Demands()
	if provider == nil || len(demands.PodShapes) > 0 {
		return nil
	}
	k := cmp.Or(demands.Constraints, &brokerv1alpha1.Constraints{})
	tolerations := requirements.WithDevices(k.Tolerations, q.Amounts)
	var largest quantity.Amounts
	for _, s := range provider.Shapes {
		if requirements.HasAll(s.Labels, k.NodeSelector) && requirements.TolerateAll(tolerations, s.Taints) {
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
func (qs *Quotes) priceCandidates(q *requests.Request, out *v1.Quote) []v1.QuotedCandidate {
	verdicts, rejected := qs.s.JudgeCandidates(q, maxCandidates)
	out.Rejected = rejected
	all := make([]v1.QuotedCandidate, len(verdicts))
	for i, v := range verdicts {
		c := v1.QuotedCandidate{Candidate: term.CandidateOf(v, out.ClusterID)}
		if v.Bill.Currency != "" {
			c.PriceTotal = decision.Money(v.Bill.Total)
		}
		if all[i] = c; c.ClusterID == out.ClusterID {
			out.PricePerHour, out.PriceTotal, out.Currency, out.NotPriced = c.PricePerHour, c.PriceTotal, c.Currency, c.NotPriced
		}
	}
	return all
}

// billedHours returns the number of hours that a total price covers.
func billedHours(duration time.Duration) float64 { return decision.Lasts(duration).Hours() }
