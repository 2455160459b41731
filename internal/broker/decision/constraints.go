package decision

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// applyConstraints resolves the request's constraints to the set of matching rows.
// checkCandidate tests constraints on nodes and prices.
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
	if len(k.Include) > 0 {
		c.keepNamed(k.Include)
	}
	c.dropNamed(k.Exclude)
	c.keepSelected(k.Clusters)
	if k.DataSet != "" {
		c.keepWithData(k.DataSet)
	}
	for i := range k.Claims {
		c.keepClaiming(&k.Claims[i])
	}
}

// keepStating keeps the rows whose fact has one of values. Without values it keeps all rows.
func (c *contest) keepStating(k factKey, values []string) {
	if len(values) == 0 {
		return
	}
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

func (c *contest) keepSelected(s *terms.Selector) {
	if s == nil {
		return
	}
	for name, value := range s.Labels {
		some := c.noRows()
		some.addRow(c.market.index[factKey{labelFact, name}][value])
		c.allowed.intersectWith(some)
	}
	for i := range s.Expressions {
		c.keepExpressed(&s.Expressions[i])
	}
}

func (c *contest) keepExpressed(e *terms.Expression) {
	k := factKey{labelFact, e.Key}
	switch e.Operator {
	case terms.In:
		some := c.noRows()
		for _, v := range e.Values {
			some.addRow(c.market.index[k][v])
		}
		c.allowed.intersectWith(some)
	case terms.NotIn:
		for _, v := range e.Values {
			c.allowed.dropRow(c.market.index[k][v])
		}
	case terms.Exists:
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

// keepWithData scans every row. An index lookup would need the full name of the label, which
// costs an allocation.
func (c *contest) keepWithData(dataSet string) {
	for i := range c.market.facts {
		if c.allowed.hasRow(i) && !c.market.facts[i].hasData(dataSet) {
			c.allowed[i>>6] &^= 1 << (i & 63)
		}
	}
}

func (c *contest) keepClaiming(claim *terms.Claim) {
	some := c.noRows()
	for value, rows := range c.market.index[factKey{claimFact, claim.Name}] {
		if claim.MetBy(value) {
			some.addRow(rows)
		}
	}
	c.allowed.intersectWith(some)
}

func (c *contest) noRows() rowSet {
	c.some = c.some.resizeTo(len(c.market.ids), false)
	return c.some
}

// unmetConstraint returns the first constraint that a row does not meet, and the detail for the
// message. It reads the row instead of the index.
func (c *contest) unmetConstraint(i int) (Reason, string) {
	r, f, id := c.request, c.market.facts[i], c.market.ids[i]
	if len(r.Near) > 0 && !slices.Contains(r.Near, id) {
		return AffinityNotMet, "has none of the reservations to be near to, which are on " + joinFirst(r.Near)
	}
	if slices.Contains(r.Apart, id) {
		return AntiAffinityNotMet, "has one of the reservations to be apart from"
	}
	k := r.Constraints
	switch {
	case k == nil:
		return "", ""
	case len(k.Regions) > 0 && !slices.Contains(k.Regions, f.region):
		return WrongLocation, isElsewhere("region", f.region, k.Regions)
	case len(k.Zones) > 0 && !slices.Contains(k.Zones, f.zone):
		return WrongLocation, isElsewhere("zone", f.zone, k.Zones)
	case len(k.Include) > 0 && !slices.Contains(k.Include, id):
		return NotIncluded, "is not among the clusters that the request includes"
	case slices.Contains(k.Exclude, id):
		return Excluded, "is excluded by the request"
	case !k.Clusters.Matches(f.labels):
		return LabelsDoNotMatch, "does not have the labels that are asked for"
	case k.DataSet != "" && !f.hasData(k.DataSet):
		return DataElsewhere, fmt.Sprintf("does not have the data set %s (label %s)", k.DataSet, terms.DataLabel(k.DataSet))
	}
	return c.unmetClaim(f)
}

func (c *contest) unmetClaim(f facts) (Reason, string) {
	for _, claim := range c.request.Constraints.Claims {
		switch have, ok := f.claims[claim.Name]; {
		case !ok:
			return ClaimNotMade, fmt.Sprintf("does not claim %s", claim.Name)
		case !claim.MetBy(have):
			return ClaimNotMade, fmt.Sprintf("claims %s %s, %s is required", claim.Name, have, claim)
		}
	}
	return "", ""
}

// joinFirst joins the first few names of a list.
func joinFirst(clusters []string) string {
	const named = 10
	if more := len(clusters) - named; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(clusters[:named], ", "), more)
	}
	return strings.Join(clusters, ", ")
}

func isElsewhere(what, is string, wanted []string) string {
	if is == "" {
		is = "none"
	}
	return fmt.Sprintf("is in %s %s, not in %s", what, is, strings.Join(wanted, ", "))
}
