package broker

import (
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

// Visibility limits the information that requesters get about other clusters. The zero
// Visibility hides nothing.
type Visibility struct {
	Candidates brokerv1alpha1.CandidatesShown
	// HidePrices leaves out the prices of other clusters, and messages that reveal them.
	HidePrices bool
}

// showsAll reports whether requesters learn the names of other clusters.
func (v Visibility) showsAll() bool {
	return v.Candidates != brokerv1alpha1.CandidatesCounts && v.Candidates != brokerv1alpha1.CandidatesAnonymous
}

// visibleTo returns the candidates that the requester may see. got is the cluster that it got, "" for
// none; named is the cluster that the request names as its target, "" for none.
func (v Visibility) visibleTo(candidates []v1.Candidate, got, named string) []v1.Candidate {
	out := make([]v1.Candidate, 0, len(candidates))
	for i, c := range candidates {
		if got == "" || c.ClusterID != got {
			switch v.Candidates {
			case brokerv1alpha1.CandidatesCounts:
				continue
			case brokerv1alpha1.CandidatesAnonymous:
				if c.Message = ""; c.ClusterID != named {
					c.ClusterID = fmt.Sprintf("candidate-%d", i+1)
				}
			}
			if v.HidePrices {
				c = withoutPrice(c)
			}
		}
		out = append(out, c)
	}
	return out
}

// inError filters the candidates of a refusal with of.
func (v Visibility) inError(err error, named string) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		e.Candidates = v.visibleTo(e.Candidates, "", named)
	}
	return err
}

func withoutPrice(c v1.Candidate) v1.Candidate {
	c.PricePerHour, c.PriceTotal, c.Currency = "", "", ""
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

// explainCandidates explains why none of the candidates can provide the capacity.
func explainCandidates(candidates []v1.Candidate, rejected map[string]int32) string {
	var why []string
	for _, c := range candidates {
		text := c.Message
		if text == "" {
			text = c.Reason
		}
		why = append(why, c.ClusterID+": "+text)
	}
	if len(candidates) == 0 {
		for _, reason := range slices.Sorted(maps.Keys(rejected)) {
			why = append(why, fmt.Sprintf("%d %s", rejected[reason], reason))
		}
	}
	if len(why) == 0 {
		return "no cluster has advertised anything yet"
	}
	return strings.Join(why, "; ")
}
