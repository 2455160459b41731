// Package visibility limits what requesters are told about other clusters.
package visibility

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	v1 "github.com/mehdiazizian/liqo-resource-broker/api/rest/v1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/broker/decision"
	"github.com/mehdiazizian/liqo-resource-broker/internal/fault"
)

// Visibility is what requesters are told. The zero Visibility hides nothing.
type Visibility struct {
	// Candidates says whether requesters are told of the candidates with names, without, or only how
	// many there are.
	Candidates brokerv1alpha1.CandidatesShown
	// HidePrices is true if the prices of other clusters, and messages that reveal them, are left
	// out.
	HidePrices bool
}

// ShowsAll reports whether requesters are told the names of other clusters.
func (v Visibility) ShowsAll() bool {
	return v.Candidates != brokerv1alpha1.CandidatesCounts && v.Candidates != brokerv1alpha1.CandidatesAnonymous
}

// VisibleTo returns the candidates as the requester may see them. got is the ID of the cluster on
// which the request was granted; named is the ID of the cluster that the request names as its
// target. Each is "" if there is none.
func (v Visibility) VisibleTo(candidates []brokerv1alpha1.Candidate, got, named string) []brokerv1alpha1.Candidate {
	out := make([]brokerv1alpha1.Candidate, 0, len(candidates))
	for i, c := range candidates {
		if shown, visible := v.showCandidate(i, c, got, named); visible {
			out = append(out, shown)
		}
	}
	return out
}

// OfQuote returns the candidates of a quote as the requester may see them, see VisibleTo. It hides
// the total price of a candidate whenever it hides the price per hour.
func (v Visibility) OfQuote(candidates []v1.QuotedCandidate, got, named string) []v1.QuotedCandidate {
	out := make([]v1.QuotedCandidate, 0, len(candidates))
	for i, c := range candidates {
		shown, visible := v.showCandidate(i, c.Candidate, got, named)
		if !visible {
			continue
		}
		if c.Candidate = shown; shown.PricePerHour == "" {
			c.PriceTotal = ""
		}
		out = append(out, c)
	}
	return out
}

// showCandidate returns the candidate at index i as the requester may see it, and whether the
// requester may see it at all. got and named are as in VisibleTo.
func (v Visibility) showCandidate(i int, c brokerv1alpha1.Candidate, got, named string) (brokerv1alpha1.Candidate, bool) {
	if got != "" && c.ClusterID == got {
		return c, true
	}
	switch v.Candidates {
	case brokerv1alpha1.CandidatesCounts:
		return c, false
	case brokerv1alpha1.CandidatesAnonymous:
		if c.Message = ""; c.ClusterID != named {
			c.ClusterID = fmt.Sprintf("candidate-%d", i+1)
		}
	}
	if v.HidePrices {
		c = withoutPrice(c)
	}
	return c, true
}

// InError limits the candidates in a refusal to what the requester may see. named is as in
// VisibleTo.
func (v Visibility) InError(err error, named string) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		e.Candidates = v.VisibleTo(e.Candidates, "", named)
	}
	return err
}

func withoutPrice(c brokerv1alpha1.Candidate) brokerv1alpha1.Candidate {
	c.DropPrice()
	if c.Criteria != nil {
		c.Criteria = maps.Clone(c.Criteria)
		delete(c.Criteria, decision.Cost)
	}
	switch decision.Reason(c.Reason) {
	case decision.TooExpensive, decision.NoPrice:
		c.Message = ""
	}
	return c
}

// Explain returns a text that says why none of the candidates can provide the capacity.
func Explain(candidates []brokerv1alpha1.Candidate, rejected map[string]int32) string {
	var why []string
	for _, c := range candidates {
		if c.Reason == string(decision.Self) {
			continue // this needs no explanation: no cluster serves itself
		}
		why = append(why, c.ClusterID+": "+cmp.Or(c.Message, c.Reason))
	}
	if len(candidates) == 0 {
		for _, reason := range slices.Sorted(maps.Keys(rejected)) {
			why = append(why, fmt.Sprintf("%d %s", rejected[reason], reason))
		}
	}
	if len(why) == 0 {
		return "no other cluster has advertised anything yet"
	}
	return strings.Join(why, "; ")
}
