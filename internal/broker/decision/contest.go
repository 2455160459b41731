package decision

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/packing"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// contest is one request with its names resolved to rows and columns of the market. Market.scratch
// is the only contest: it reuses its slices, so a decision allocates nothing.
type contest struct {
	market            *Market
	request           *Request
	self              int32
	excluded, avoided []int32
	// lastResort is true if candidates that should be avoided may serve the request. Otherwise spared
	// is true once such a candidate was rejected, or a paused one that may be the last resort.
	lastResort, spared bool
	links              links
	// linkAt holds, for every row, 1 + the index in links of the link to that row; 0 for no link.
	linkAt []int32
	needs  []need
	gates  [2]gate
	// exceeded holds the reasons why candidates do not serve the requester because it used more
	// than it was granted; nil if there are none.
	exceeded *Excess

	// allowed is the set of rows that meet the constraints; it is valid if constrained is true.
	// some is scratch memory.
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

	// The state of the cost criterion: currency is the currency in which costs are compared, and
	// cheapest the lowest cost of all candidates that could serve the request.
	priced   []pricedNeed
	currency string
	cheapest float64
	// factor holds, for each of the market's currencies, the factor that converts its prices to the
	// compared currency; 0 if there is no rate.
	factor []float64
	// moving is scratch memory: for each row, the candidate's price of moving a GiB of the
	// request's data; 0 if the data need not move.
	moving []float64
}

// need is a requested amount of one resource. column is the constant nowhere if the market has no
// column for the resource, because no candidate offers it.
type need struct {
	name   corev1.ResourceName
	column int32
	amount int64
}

const nowhere int32 = -1

// gate pairs the requested amount of one resource with the column of free amounts. Two resources
// are tested with gates before anything else. So, when little is free, a decision rejects most
// candidates with one or two comparisons each.
type gate struct {
	available []int64
	least     int64
}

// pricedNeed is a need for which at least one candidate charges. units is the amount in the unit of
// the price: cores, GiB or pieces.
type pricedNeed struct {
	name  corev1.ResourceName
	price []float64
	units float64
	// omitted is true if some candidate with prices has none for this resource. For such a candidate,
	// the comparison of costs uses the value of highest, which is in billionths of the currency in
	// which costs are compared.
	omitted bool
	highest float64
}

type judge struct {
	criterion
	weight int64
}

// beginContest resolves a request. With lastResort, candidates to avoid may serve it too.
func (m *Market) beginContest(r *Request, lastResort bool) *contest {
	c := &m.scratch
	c.market, c.request = m, r
	c.self = nowhere
	if i, ok := m.row[r.Requester]; ok {
		c.self = i
	}
	c.excluded, c.avoided = m.appendRows(c.excluded[:0], r.Exclude), m.appendRows(c.avoided[:0], r.Avoid)
	c.lastResort, c.spared = lastResort, false
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
	c.tolerations = requirements.WithDevices(c.tolerations, r.Amounts)
	c.applyConstraints()
	c.setMaxPrice(r.Constraints)
	c.priced = c.priced[:0]
	for _, n := range c.needs {
		if n.column == nowhere || m.columns[n.column].priced == 0 {
			continue
		}
		col := &m.columns[n.column]
		c.priced = append(c.priced, pricedNeed{
			name: n.name, price: col.price, units: float64(n.amount) / float64(money.BasePerPriced(n.name)),
			omitted: col.priced+col.free < m.countWithPrices(),
		})
	}
	c.priceData()
	c.gates = [2]gate{m.gateFor(c.needs, 0), m.gateFor(c.needs, len(c.needs)-1)}
	c.appointJudges(r.Weights)
	return c
}

// appendRows appends the rows of the given clusters, without those that are not in the market.
func (m *Market) appendRows(rows []int32, ids []string) []int32 {
	for _, id := range ids {
		if i, ok := m.row[id]; ok {
			rows = append(rows, i)
		}
	}
	return rows
}

// releaseRequest resets linkAt and drops all references to the request, so that it can be
// garbage-collected.
func (c *contest) releaseRequest() {
	for k := range c.links {
		c.linkAt[c.links[k].provider] = 0
	}
	c.request, c.links, c.nodeLabels, c.tolerations, c.exceeded = nil, nil, nil, nil, nil
}

// resolveNeeds appends the needs for amounts, sorted by name. The fixed order makes sure that every
// run reports the same unmet need and adds costs in the same order.
func (m *Market) resolveNeeds(needs []need, amounts quantity.Amounts) []need {
	first := len(needs)
	for name, amount := range amounts {
		needs = m.insertNeed(needs, first, name, amount)
	}
	return needs
}

// insertNeed inserts a need into needs[first:], which is sorted by resource name. It ignores
// amounts of zero or less.
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

// tooSmall reports whether the candidate has too little free for one of the two gates. It is fast
// and finds most candidates that checkCandidate would reject for an amount.
func (c *contest) tooSmall(i int) bool {
	return c.gates[0].available[i] < c.gates[0].least || c.gates[1].available[i] < c.gates[1].least
}

// appointJudges selects the criteria that have a weight and data to judge by. If there are none,
// availability alone decides.
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
	if m.marks[i]&(vacant|stale|denied|choosy|suspended) != 0 || c.linkAt[i] != 0 || c.exceeded != nil || len(c.excluded)+len(c.avoided) > 0 || int32(i) == c.self {
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
	if left := c.request.Left; m.newNodes && left > 0 && left <= m.readyWithin[i] {
		return ReadyTooLate, 0
	}
	return c.checkPrice(i), 0
}

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

func (c *contest) checkExplained(i int) (Reason, int) {
	reason, which := c.checkCandidate(i)
	if reason == barred {
		reason, _ = c.unmetConstraint(i)
	}
	return reason, which
}

// checkStanding returns why the candidate is rejected whatever amounts are requested: because it is
// denied, stale, suspended, unreachable and so on. It returns "" if none of these applies.
func (c *contest) checkStanding(i int) Reason {
	marks, l := c.market.marks[i], c.knownLink(i)
	switch {
	case marks&vacant != 0:
		return absent
	case int32(i) == c.self:
		return Self
	case slices.Contains(c.excluded, int32(i)):
		return AlreadyTried
	case !c.lastResort && slices.Contains(c.avoided, int32(i)):
		c.spared = true
		return AlreadyTried
	case marks&denied != 0 || l.Denied:
		return Denied
	case marks&choosy != 0 && c.lendingRefusal(i) != "":
		return c.lendingRefusal(i)
	case marks&stale != 0:
		return Stale
	case marks&suspended != 0 || c.exceeded != nil:
		if reason, _ := c.describeSuspension(i); reason != "" {
			c.spared = c.spared || reason == Paused
			return reason
		}
	}
	if l.Unreachable {
		return Unreachable
	}
	return ""
}

// lendingRefusal returns the reason why the candidate does not lend to the requester, "" if it does.
// A candidate that never peers lends only to a requester that does not peer either: a cluster that
// says so, or no cluster at all.
func (c *contest) lendingRefusal(i int) Reason {
	lends := c.market.lends[i]
	if reason := lends.Refuses(c.request.Requester); reason != "" || !lends.SkipsPeering() {
		return Reason(reason)
	}
	if c.self == nowhere || c.market.lends[c.self].SkipsPeering() {
		return ""
	}
	return ProviderNotReady
}

// describeRejection converts the result of checkCandidate to a Rejection with figures and details.
func (c *contest) describeRejection(i int, reason Reason, which int) Rejection {
	out := Rejection{Reason: reason}
	switch reason {
	case "", barred, AffinityNotMet, AntiAffinityNotMet, WrongLocation, NotIncluded, Excluded, LabelsDoNotMatch, DataElsewhere, ClaimNotMade:
		if c.constrained {
			out.Reason, out.Detail = c.unmetConstraint(i)
		}
	case LendingPaused, ProviderNotReady, ProviderLeaving, ConsumerDenied:
		out.Detail = lending.Reason(reason).Message(c.request.Requester)
	case Unreachable:
		out.Detail = c.knownLink(i).Detail
	case Cordoned, Paused, ExceededGrant:
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
	case ReadyTooLate:
		out.Detail = fmt.Sprintf("has room only on nodes that it creates within %s, and the reservation ends in %s",
			c.market.readyWithin[i], c.request.Left.Round(time.Second))
	}
	return out
}

// knownLink returns the link from the requester to the candidate. For an unknown link it returns
// the zero Link, never nil.
func (c *contest) knownLink(i int) *Link {
	if at := c.linkAt[i]; at != 0 {
		return &c.links[at-1].Link
	}
	return &unknownLink
}

var unknownLink Link

// costOf returns the price of the request per hour in billionths of the candidate's currency, 0 if
// the candidate has no prices. Resources without a price add nothing.
func (c *contest) costOf(i int) float64 {
	sum := 0.0
	for k := range c.priced {
		p := &c.priced[k]
		sum += max(p.price[i], 0) * p.units
	}
	return sum
}

// totalScore returns the sum of a candidate's scores, each multiplied by its weight. Divided by
// c.weight, it is a score between 0 and fullScore.
func (c *contest) totalScore(i int) int64 { return c.totalAbove(math.MinInt64, i) }

// totalAbove returns totalScore if it is at least the given minimum. Otherwise it may stop early
// and return any number below that minimum.
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
