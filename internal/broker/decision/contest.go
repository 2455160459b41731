package decision

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// contest is one request, resolved against the market. It reuses its slices as long as the
// market exists, so a decision allocates nothing.
type contest struct {
	market   *Market
	request  *Request
	self     int32
	excluded []int32
	links    links
	// linkAt holds for every row its index in links plus one, or 0 for no link.
	linkAt []int32
	needs  []need
	gates  [2]gate
	// exceeded holds the candidates that do not serve the requester; nil if all may.
	exceeded *Excess

	// The resolved constraints. some is scratch memory.
	constrained   bool
	allowed, some rowSet
	nodeLabels    map[string]brokerv1alpha1.LabelValue
	tolerations   []brokerv1alpha1.Toleration
	maxPrice      maxPrice

	// Scratch memory for placing pods.
	kinds     []kind
	eachNeeds []need
	podNeeds  []packing.Need
	nodes     packing.Nodes

	judges []judge
	weight int64

	// State of the cost criterion.
	priced   []pricedNeed
	currency string
	cheapest float64
	// factor converts prices of each of the market's currencies to the compared currency; 0 if
	// there is no rate.
	factor []float64
	// moving is scratch memory: the price of moving a GiB out of its region, for each row.
	moving []float64
}

// need is an amount of one resource. Its column is nowhere if no candidate ever offered the
// resource.
type need struct {
	name   corev1.ResourceName
	column int32
	amount int64
}

const nowhere int32 = -1

// gate is the least amount of one resource that must be available. Two of the needs are tested
// this way before anything else, so that a decision rejects the candidates of a full fleet with
// one or two comparisons each.
type gate struct {
	available []int64
	least     int64
}

// pricedNeed is a need for which some candidate charges, in the units of the price.
type pricedNeed struct {
	name  corev1.ResourceName
	price []float64
	units float64
	// omitted reports whether a candidate may lack the price. It is compared at highest then,
	// which is in billionths of the compared currency.
	omitted bool
	highest float64
}

// judge is a criterion that counts in this contest.
type judge struct {
	criterion
	weight int64
}

func (m *Market) beginContest(r *Request) *contest {
	c := &m.scratch
	c.market, c.request = m, r
	c.self = nowhere
	if i, ok := m.row[r.Requester]; ok {
		c.self = i
	}
	c.excluded = c.excluded[:0]
	for _, id := range r.Exclude {
		if i, ok := m.row[id]; ok {
			c.excluded = append(c.excluded, i)
		}
	}
	c.links = m.links[r.Requester]
	c.exceeded = m.exceeded[r.Requester]
	for k := range c.links {
		c.linkAt[c.links[k].provider] = int32(k) + 1
	}
	c.needs = m.resolveNeeds(c.needs[:0], r.Amounts)
	c.sortKinds(r.PodShapes)
	c.nodeLabels, c.tolerations = nil, nil
	if r.Constraints != nil {
		c.nodeLabels, c.tolerations = r.Constraints.NodeSelector, r.Constraints.Tolerations
	}
	c.applyConstraints()
	c.setMaxPrice(r.Constraints)
	c.priced = c.priced[:0]
	for _, n := range c.needs {
		if n.column == nowhere || m.columns[n.column].priced == 0 {
			continue
		}
		col := &m.columns[n.column]
		c.priced = append(c.priced, pricedNeed{
			name: n.name, price: col.price, units: float64(n.amount) / basePerPriced(n.name),
			omitted: col.priced+col.free < m.countWithPrices(),
		})
	}
	c.priceData()
	c.gates = [2]gate{m.gateFor(c.needs, 0), m.gateFor(c.needs, len(c.needs)-1)}
	c.appointJudges(r.Weights)
	return c
}

// releaseRequest drops references to the request, for the garbage collector.
func (c *contest) releaseRequest() {
	for k := range c.links {
		c.linkAt[c.links[k].provider] = 0
	}
	c.request, c.links, c.nodeLabels, c.tolerations, c.exceeded = nil, nil, nil, nil, nil
}

// resolveNeeds appends the needs sorted by name. So every run reports the same unmet need and
// adds the costs in the same order.
func (m *Market) resolveNeeds(needs []need, amounts quantity.Amounts) []need {
	first := len(needs)
	for name, amount := range amounts {
		needs = m.insertNeed(needs, first, name, amount)
	}
	return needs
}

// insertNeed inserts a need among those from first on, which are sorted by name.
func (m *Market) insertNeed(needs []need, first int, name corev1.ResourceName, amount int64) []need {
	if amount <= 0 {
		return needs
	}
	k, ok := m.columnOf[name]
	if !ok {
		k = nowhere
	}
	at := len(needs)
	for at > first && needs[at-1].name > name {
		at--
	}
	return slices.Insert(needs, at, need{name: name, column: k, amount: amount})
}

func (m *Market) gateFor(needs []need, which int) gate {
	if len(needs) == 0 {
		return gate{m.columns[cpuColumn].available, math.MinInt64}
	}
	n := needs[which]
	if n.column == nowhere {
		return gate{m.columns[cpuColumn].available, math.MaxInt64}
	}
	return gate{m.columns[n.column].available, n.amount}
}

// tooSmall reports whether checkCandidate would certainly reject a candidate for an amount. It
// is fast and finds most such candidates.
func (c *contest) tooSmall(i int) bool {
	return c.gates[0].available[i] < c.gates[0].least || c.gates[1].available[i] < c.gates[1].least
}

// appointJudges selects the criteria that have a weight and any data. If there is none,
// availability decides.
func (c *contest) appointJudges(w Weights) {
	if w == nil {
		w = presets[DefaultPreset]
	}
	c.judges, c.weight = c.judges[:0], 0
	for _, criterion := range criteria {
		if weight := int64(w[criterion.name()]); weight > 0 && criterion.prepareScores(c) {
			c.judges = append(c.judges, judge{criterion, weight})
			c.weight += weight
		}
	}
	if len(c.judges) == 0 {
		c.judges = append(c.judges, judge{availability{}, 100})
		c.weight = 100
	}
}

// checkCandidate returns why a candidate is rejected, or "" if it can provide. If the reason is
// about a resource, checkCandidate also returns the index of the unmet need.
func (c *contest) checkCandidate(i int) (Reason, int) {
	m := c.market
	if m.marks[i]&(vacant|stale|denied|choosy|suspended) != 0 || c.linkAt[i] != 0 || c.exceeded != nil || len(c.excluded) > 0 || int32(i) == c.self {
		if reason := c.checkStanding(i); reason != "" {
			return reason, 0
		}
	}
	if c.constrained && !c.allowed.hasRow(i) {
		return barred, 0
	}
	if reason, k := c.checkNeeds(i); reason != "" {
		return reason, k
	}
	if c.checksNodes(i) {
		if k, ok := c.checkNodes(i); !ok {
			return NodesDoNotMatch, k
		}
	}
	if _, ok := c.fitsShapes(i); !ok {
		return ShapeDoesNotFit, 0
	}
	return c.checkPrice(i), 0
}

// checkNeeds tests the amounts for checkCandidate.
func (c *contest) checkNeeds(i int) (Reason, int) {
	for k := range c.needs {
		n := &c.needs[k]
		if n.column == nowhere {
			return NeverAdvertised, k
		}
		switch have := c.market.columns[n.column].available[i]; {
		case have == neverAdvertised:
			return NeverAdvertised, k
		case have < n.amount:
			return InsufficientResource, k
		}
	}
	return "", 0
}

// checkExplained calls checkCandidate. If a constraint is not met, it also determines which one.
func (c *contest) checkExplained(i int) (Reason, int) {
	reason, which := c.checkCandidate(i)
	if reason == barred {
		reason, _ = c.unmetConstraint(i)
	}
	return reason, which
}

// checkStanding tests the candidate itself for checkCandidate: denied, silent, suspended,
// unreachable and so on.
func (c *contest) checkStanding(i int) Reason {
	marks, l := c.market.marks[i], c.knownLink(i)
	switch {
	case marks&vacant != 0:
		return absent
	case int32(i) == c.self:
		return Self
	case slices.Contains(c.excluded, int32(i)):
		return AlreadyTried
	case marks&denied != 0 || l.Denied:
		return Denied
	case marks&choosy != 0 && c.lendingRefusal(i) != "":
		return c.lendingRefusal(i)
	case marks&stale != 0:
		return Stale
	case marks&suspended != 0 || c.exceeded != nil:
		if reason, _ := c.describeSuspension(i); reason != "" {
			return reason
		}
	}
	if l.Unreachable {
		return Unreachable
	}
	return ""
}

// lendingRefusal returns the reason if the candidate's operator does not lend to the requester,
// else "".
func (c *contest) lendingRefusal(i int) Reason {
	return Reason(c.market.lends[i].Refuses(c.request.Requester))
}

// describeRejection converts the result of checkCandidate to a Rejection with its figures.
func (c *contest) describeRejection(i int, reason Reason, which int) Rejection {
	out := Rejection{Reason: reason}
	switch reason {
	case "", barred, AffinityNotMet, AntiAffinityNotMet, WrongLocation, NotIncluded, Excluded, LabelsDoNotMatch, DataElsewhere, ClaimNotMade:
		if c.constrained {
			out.Reason, out.Detail = c.unmetConstraint(i)
		}
	case LendingPaused, ProviderNotReady, ConsumerDenied:
		out.Detail = lending.Reason(reason).Message(c.request.Requester)
	case Unreachable:
		out.Detail = c.knownLink(i).Detail
	case Paused, ExceededGrant:
		_, out.Detail = c.describeSuspension(i)
	case NoPrice, TooExpensive:
		out.Detail = c.tellPrice(i)
	case NodesDoNotMatch:
		n := &c.needs[which]
		out.Resource, out.Need, out.Have = n.name, n.amount, c.selectedRoom(i, n)
	case NeverAdvertised:
		out.Resource, out.Need = c.needs[which].name, c.needs[which].amount
	case InsufficientResource:
		n := c.needs[which]
		out.Resource, out.Need, out.Have = n.name, n.amount, c.market.columns[n.column].available[i]
	case ShapeDoesNotFit:
		out.Have, _ = c.fitsShapes(i)
		for _, k := range c.kinds {
			out.Need += k.count
		}
	}
	return out
}

// knownLink returns the link from the requester to the candidate, nil if it is unknown.
func (c *contest) knownLink(i int) *Link {
	if at := c.linkAt[i]; at != 0 {
		return &c.links[at-1].Link
	}
	return &unknownLink
}

var unknownLink Link

// costOf returns the price of the request per hour, in billionths of the candidate's
// currency; 0 if the candidate has no price.
func (c *contest) costOf(i int) float64 {
	sum := 0.0
	for k := range c.priced {
		p := &c.priced[k]
		sum += max(p.price[i], 0) * p.units
	}
	return sum
}

// totalScore returns the weighted sum of a candidate's scores. The sum divided by weight is a
// score.
func (c *contest) totalScore(i int) int64 { return c.totalAbove(math.MinInt64, i) }

// totalAbove returns the total. If the total cannot reach least, it stops early and returns any
// number below least.
func (c *contest) totalAbove(least int64, i int) int64 {
	sum, open := int64(0), c.weight
	for k := range c.judges {
		j := &c.judges[k]
		sum += j.weight * j.score(c, i)
		if open -= j.weight; sum+open*fullScore < least {
			return sum
		}
	}
	return sum
}
