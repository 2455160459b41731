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

func (m *Market) begin(r *Request) *contest {
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
	c.needs = m.resolve(c.needs[:0], r.Amounts)
	c.sortKinds(r.Pods)
	c.nodeLabels = nil
	if r.Constraints != nil {
		c.nodeLabels = r.Constraints.Nodes
	}
	c.constrain()
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
	c.gates = [2]gate{m.gate(c.needs, 0), m.gate(c.needs, len(c.needs)-1)}
	c.appoint(r.Weights)
	return c
}

// end lets go of the request.
func (c *contest) end() {
	for k := range c.links {
		c.linkAt[c.links[k].provider] = 0
	}
	c.request, c.links, c.nodeLabels, c.exceeded = nil, nil, nil, nil
}

// resolve appends the needs sorted by name: the first one that is not met is the
// one that is told, and costs are always added up in the same order.
func (m *Market) resolve(needs []need, amounts quantity.Amounts) []need {
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

func (m *Market) gate(needs []need, which int) gate {
	if len(needs) == 0 {
		return gate{m.columns[cpuColumn].available, math.MinInt64}
	}
	n := needs[which]
	if n.column == nowhere {
		return gate{m.columns[cpuColumn].available, math.MaxInt64}
	}
	return gate{m.columns[n.column].available, n.amount}
}

// tooSmall reports a part of what check finds, faster.
func (c *contest) tooSmall(i int) bool {
	return c.gates[0].available[i] < c.gates[0].least || c.gates[1].available[i] < c.gates[1].least
}

// appoint chooses the criteria that have a weight and something to judge by. When
// none has, availability decides.
func (c *contest) appoint(w Weights) {
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
	if c.constrained && !c.allowed.has(i) {
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
	if _, ok := c.fits(i); !ok {
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

// explained is check with the constraint that is not met.
func (c *contest) explained(i int) (Reason, int) {
	reason, which := c.check(i)
	if reason == barred {
		reason, _ = c.unmet(i)
	}
	return reason, which
}

// checkStanding is the part of check that is about who the candidate is.
func (c *contest) checkStanding(i int) Reason {
	marks, l := c.market.marks[i], c.link(i)
	switch {
	case marks&vacant != 0:
		return absent
	case int32(i) == c.self:
		return Self
	case slices.Contains(c.excluded, int32(i)):
		return AlreadyTried
	case marks&denied != 0 || l.Denied:
		return Denied
	case marks&choosy != 0 && c.refused(i) != "":
		return c.refused(i)
	case marks&stale != 0:
		return Stale
	case marks&suspended != 0 || c.exceeded != nil:
		if reason, _ := c.suspension(i); reason != "" {
			return reason
		}
	}
	if l.Unreachable {
		return Unreachable
	}
	return ""
}

// refused is why the candidate's operator does not let the requester come, "" if it may.
func (c *contest) refused(i int) Reason {
	return Reason(c.market.lends[i].Refuses(c.request.Requester))
}

// rejection turns the outcome of check into what is told.
func (c *contest) rejection(i int, reason Reason, which int) Rejection {
	out := Rejection{Reason: reason}
	switch reason {
	case "", barred, AffinityNotMet, AntiAffinityNotMet, WrongLocation, NotIncluded, Excluded, LabelsDoNotMatch, DataElsewhere, ClaimNotMade:
		if c.constrained {
			out.Reason, out.Detail = c.unmet(i)
		}
	case LendingPaused, ConsumerDenied:
		out.Detail = lending.Reason(reason).Message(c.request.Requester)
	case Unreachable:
		out.Detail = c.link(i).Detail
	case Paused, ExceededGrant:
		_, out.Detail = c.suspension(i)
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
		out.Have, _ = c.fits(i)
		for _, k := range c.kinds {
			out.Need += k.count
		}
	}
	return out
}

// link is what is known of the way from the requester.
func (c *contest) link(i int) *Link {
	if at := c.linkAt[i]; at != 0 {
		return &c.links[at-1].Link
	}
	return &unknownLink
}

var unknownLink Link

// costOf is what the request costs there for an hour, in billionths of the
// candidate's currency; 0 when it names no price.
func (c *contest) costOf(i int) float64 {
	sum := 0.0
	for k := range c.priced {
		p := &c.priced[k]
		sum += p.price[i] * p.units
	}
	return sum
}

// total is the weighed sum of a candidate's scores; divided by weight it is a score.
func (c *contest) total(i int) int64 { return c.totalAbove(math.MinInt64, i) }

// totalAbove is total, but gives up with some smaller number where it sees that
// the total is below least.
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
