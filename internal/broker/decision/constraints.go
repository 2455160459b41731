package decision

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// applyConstraints computes allowed, the set of the rows that meet the request's constraints.
// checkCandidate tests the other constraints, those on nodes and prices, for each candidate.
func (c *contest) applyConstraints() {
	r := c.request
	k := r.Constraints
	c.constrained = k != nil || len(r.Near) > 0 || len(r.Apart) > 0
	if !c.constrained {
		return
	}
	c.allowed = c.allowed.resizeTo(len(c.market.ids), true)
	if len(r.Near) > 0 {
		c.keepNamed(r.Near)
	}
	c.dropNamed(r.Apart)
	if k == nil {
		return
	}
	c.keepStating(factKey{kind: regionFact}, k.Regions)
	c.keepStating(factKey{kind: zoneFact}, k.Zones)
	if len(k.IncludeClusters) > 0 {
		c.keepNamed(k.IncludeClusters)
	}
	c.dropNamed(k.ExcludeClusters)
	c.keepSelected(k.ClusterSelector)
	if k.DataLocality != "" {
		c.keepWithData(k.DataLocality)
	}
	for name, required := range k.RequiredClaims {
		c.keepClaiming(name, string(required))
	}
}

// keepStating keeps the rows whose fact k, such as the region, has one of the values. If values is
// empty, it keeps all rows.
func (c *contest) keepStating(k factKey, values []string) {
	if len(values) > 0 {
		c.keepAny(k, values...)
	}
}

// keepAny keeps the rows whose fact k has one of the values.
func (c *contest) keepAny(k factKey, values ...string) {
	some := c.noRows()
	for _, v := range values {
		some.addRow(c.market.index[k][v])
	}
	c.allowed.intersectWith(some)
}

func (c *contest) keepNamed(ids []string) {
	some := c.noRows()
	for _, id := range ids {
		if i, ok := c.market.row[id]; ok {
			some[i>>6] |= 1 << (i & 63)
		}
	}
	c.allowed.intersectWith(some)
}

func (c *contest) dropNamed(ids []string) {
	for _, id := range ids {
		if i, ok := c.market.row[id]; ok {
			c.allowed[i>>6] &^= 1 << (i & 63)
		}
	}
}

func (c *contest) keepSelected(s *brokerv1alpha1.ClusterSelector) {
	if s == nil {
		return
	}
	for name, value := range s.MatchLabels {
		c.keepAny(factKey{labelFact, name}, string(value))
	}
	for i := range s.MatchExpressions {
		c.keepExpressed(&s.MatchExpressions[i])
	}
}

func (c *contest) keepExpressed(e *brokerv1alpha1.LabelExpression) {
	k := factKey{labelFact, e.Key}
	switch e.Operator {
	case requirements.In:
		c.keepAny(k, e.Values...)
	case requirements.NotIn:
		for _, v := range e.Values {
			c.allowed.dropRow(c.market.index[k][v])
		}
	case requirements.Exists:
		some := c.noRows()
		for _, rows := range c.market.index[k] {
			some.addRow(rows)
		}
		c.allowed.intersectWith(some)
	default:
		for _, rows := range c.market.index[k] {
			c.allowed.dropRow(rows)
		}
	}
}

// keepWithData keeps the rows with a label that names the data set. It scans every row: to look
// the label up in the index, it would have to join prefix and name, which allocates memory.
func (c *contest) keepWithData(dataSet string) {
	for i := range c.market.facts {
		if c.allowed.hasRow(i) && !c.market.facts[i].hasData(dataSet) {
			c.allowed[i>>6] &^= 1 << (i & 63)
		}
	}
}

// keepClaiming keeps the rows whose value of the named claim meets the required one. If required
// cannot be parsed, it keeps no row. That does not happen: the request was validated on arrival.
func (c *contest) keepClaiming(name, required string) {
	some := c.noRows()
	claim, err := requirements.ParseClaim(required)
	for value, rows := range c.market.index[factKey{claimFact, name}] {
		if err == nil && claim.MetBy(value) {
			some.addRow(rows)
		}
	}
	c.allowed.intersectWith(some)
}

func (c *contest) noRows() rowSet {
	c.some = c.some.resizeTo(len(c.market.ids), false)
	return c.some
}

// unmetConstraint returns the first constraint that the candidate in row i does not meet, as a
// reason and as a text for Rejection.Detail. It compares the facts of the candidate, because the
// set allowed does not show which constraint is unmet.
func (c *contest) unmetConstraint(i int) (Reason, string) {
	r, f, id := c.request, c.market.facts[i], c.market.ids[i]
	if len(r.Near) > 0 && !slices.Contains(r.Near, id) {
		return AffinityNotMet, "holds no reservation of the groups in affinity, which are on " + joinFirst(r.Near)
	}
	if slices.Contains(r.Apart, id) {
		return AntiAffinityNotMet, "holds a reservation of the groups in antiAffinity"
	}
	k := r.Constraints
	switch {
	case k == nil:
		return "", ""
	case len(k.Regions) > 0 && !slices.Contains(k.Regions, f.region):
		return WrongLocation, isElsewhere("region", f.region, k.Regions)
	case len(k.Zones) > 0 && !slices.Contains(k.Zones, f.zone):
		return WrongLocation, isElsewhere("zone", f.zone, k.Zones)
	case len(k.IncludeClusters) > 0 && !slices.Contains(k.IncludeClusters, id):
		return NotIncluded, "is not among the clusters that the request includes"
	case slices.Contains(k.ExcludeClusters, id):
		return Excluded, "is excluded by the request"
	case !requirements.Selects(k.ClusterSelector, f.labels):
		return LabelsDoNotMatch, "lacks labels that clusterSelector requires"
	case k.DataLocality != "" && !f.hasData(k.DataLocality):
		return DataElsewhere, fmt.Sprintf("does not have the data set %s (label %s)", k.DataLocality, requirements.DataLabel(k.DataLocality))
	}
	return c.unmetClaim(f)
}

func (c *contest) unmetClaim(f facts) (Reason, string) {
	required := c.request.Constraints.RequiredClaims
	for _, name := range slices.Sorted(maps.Keys(required)) {
		claim, err := requirements.ParseClaim(string(required[name]))
		switch have, ok := f.claims[name]; {
		case !ok:
			return ClaimNotMade, fmt.Sprintf("does not claim %s", name)
		case err != nil || !claim.MetBy(have):
			return ClaimNotMade, fmt.Sprintf("claims %s %s, %s is required", name, have, claim)
		}
	}
	return "", ""
}

// joinFirst joins the names with commas. Of more than ten names, it joins the first ten and says
// how many more there are.
func joinFirst(clusters []string) string {
	const named = 10
	if more := len(clusters) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(clusters[:named], ", "), more)
	}
	return strings.Join(clusters, ", ")
}

func isElsewhere(what, is string, wanted []string) string {
	if is == "" {
		return fmt.Sprintf("advertises no %s; %s requested", what, strings.Join(wanted, ", "))
	}
	return fmt.Sprintf("is in %s %s, not in %s", what, is, strings.Join(wanted, ", "))
}
