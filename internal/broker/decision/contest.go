package decision

import (
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// contest is one request, resolved against the market. Its slices are scratch that
// lives as long as the market, so a decision allocates nothing.
type contest struct {
	market   *Market
	request  *Request
	self     int32
	excluded []int32
	links    links
	// linkAt holds, for every row, one more than its place in links, or 0.
	linkAt []int32
	needs  []need
	gates  [2]gate
	// exceeded says who does not serve the requester; nil where all may.
	exceeded *Excess

	// What constraints were resolved to; some is scratch.
	constrained   bool
	allowed, some rowSet
	nodeLabels    map[string]string
	ceiling       ceiling

	// What pods are placed with.
	kinds    []kind
	podNeeds []need
	bins     []bin
	room     []int64
	stride   int

	judges []judge
	weight int64

	// What the cost criterion works with.
	priced   []pricedNeed
	currency string
	cheapest float64
	// factor turns prices of each of the market's currencies into those compared; 0
	// where they cannot be.
	factor []float64
	// moving is the price of a GiB that leaves its region for each row; scratch.
	moving []float64
}

// need is an amount of one resource; column is nowhere if nobody ever offered it.
type need struct {
	name    corev1.ResourceName
	column  int32
	amount  int64
	implied bool
}

const nowhere int32 = -1

// gate is the least that must be available of one resource. Two of the needs are
// tested this way before anything else is computed, so that a fleet that is full
// is seen to be full at the speed of a comparison.
type gate struct {
	available []int64
	least     int64
}

// pricedNeed is a need that some candidate charges for, in the units of its price.
type pricedNeed struct {
	price []float64
	units float64
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
	c.sortKinds(r.Pods)
	c.nodeLabels = nil
	if r.Constraints != nil {
		c.nodeLabels = r.Constraints.Nodes
	}
	c.applyConstraints()
	c.setCeiling(r.Constraints)
	c.priced = c.priced[:0]
	for _, n := range c.needs {
		if n.column != nowhere && m.columns[n.column].priced > 0 {
			c.priced = append(c.priced, pricedNeed{
				price: m.columns[n.column].price,
				units: float64(n.amount) / basePerPriced(n.name),
			})
		}
	}
	c.priceData()
	c.gates = [2]gate{m.gateFor(c.needs, 0), m.gateFor(c.needs, len(c.needs)-1)}
	c.appointJudges(r.Weights)
	return c
}

// releaseRequest drops the references to the request, so that they can be collected.
func (c *contest) releaseRequest() {
	for k := range c.links {
		c.linkAt[c.links[k].provider] = 0
	}
	c.request, c.links, c.nodeLabels, c.exceeded = nil, nil, nil, nil
}

// resolveNeeds appends the needs sorted by name, so that the same unmet need is reported and
// costs are added in the same order every time.
func (m *Market) resolveNeeds(needs []need, amounts quantity.Amounts) []need {
	first := len(needs)
	for name, amount := range amounts {
		if amount <= 0 {
			continue
		}
		k, ok := m.columnOf[name]
		if !ok {
			k = nowhere
		}
		at := len(needs)
		for at > first && needs[at-1].name > name {
			at--
		}
		needs = slices.Insert(needs, at, need{name: name, column: k, amount: amount})
	}
	return needs
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

// tooSmall reports faster, for most candidates, that check would reject them for an amount.
func (c *contest) tooSmall(i int) bool {
	return c.gates[0].available[i] < c.gates[0].least || c.gates[1].available[i] < c.gates[1].least
}

// appointJudges chooses the criteria that have a weight and any data. If there is none,
// availability decides.
func (c *contest) appointJudges(w Weights) {
	if w == nil {
		w = presets[DefaultPreset]
	}
	c.judges, c.weight = c.judges[:0], 0
	for _, criterion := range criteria {
		if weight := int64(w[criterion.name()]); weight > 0 && criterion.prepare(c) {
			c.judges = append(c.judges, judge{criterion, weight})
			c.weight += weight
		}
	}
	if len(c.judges) == 0 {
		c.judges = append(c.judges, judge{availability{}, 100})
		c.weight = 100
	}
}

// check returns why a candidate is out, or "" when it can provide. For a reason
// that is about a resource it also returns which of the needs is not met.
func (c *contest) check(i int) (Reason, int) {
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
	if len(c.nodeLabels) > 0 {
		if k, ok := c.checkNodes(i); !ok {
			return NodesDoNotMatch, k
		}
	}
	if _, ok := c.fitsShapes(i); !ok {
		return ShapeDoesNotFit, 0
	}
	return c.checkPrice(i), 0
}

// checkNeeds is the part of check that is about amounts.
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

// checkExplained is check that also finds the constraint that is not met.
func (c *contest) checkExplained(i int) (Reason, int) {
	reason, which := c.check(i)
	if reason == barred {
		reason, _ = c.unmetConstraint(i)
	}
	return reason, which
}

// checkStanding is the part of check about the candidate itself: denied, silent, suspended,
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

// lendingRefusal returns why the candidate's operator does not lend to the requester, "" if
// it does.
func (c *contest) lendingRefusal(i int) Reason {
	return Reason(c.market.lends[i].Refuses(c.request.Requester))
}

// describeRejection turns the outcome of check into a Rejection with its figures.
func (c *contest) describeRejection(i int, reason Reason, which int) Rejection {
	out := Rejection{Reason: reason}
	switch reason {
	case "", barred, AffinityNotMet, AntiAffinityNotMet, WrongLocation, NotIncluded, Excluded, LabelsDoNotMatch, DataElsewhere, ClaimNotMade:
		if c.constrained {
			out.Reason, out.Detail = c.unmetConstraint(i)
		}
	case LendingPaused, ConsumerDenied:
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
		sum += p.price[i] * p.units
	}
	return sum
}

// totalScore returns the weighted sum of a candidate's scores. Divided by weight it is a
// score.
func (c *contest) totalScore(i int) int64 { return c.totalAbove(math.MinInt64, i) }

// totalAbove returns the total, or some number below least as soon as the total cannot
// reach that.
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
