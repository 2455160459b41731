package decision

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Candidate is a cluster that may provide.
type Candidate struct {
	// ID is the cluster ID. Among candidates with equal scores, the ID that sorts first wins.
	ID string
	// Allocatable is the cluster's whole offer, Available the part of it that is still free to
	// reserve. A resource in neither of them was never advertised.
	Allocatable quantity.Amounts
	Available   quantity.Amounts
	// Prices are in Currency, an ISO 4217 code; a price of 0 means free of charge. If a candidate
	// has any price, a resource without one is not billed, but the cost criterion compares it at
	// the highest price among the candidates. A candidate without prices or without a currency has
	// no known cost.
	Prices   map[corev1.ResourceName]Price
	Currency string
	// Reliability is the share of its promises that the candidate has kept, from 0 to 1; nil if
	// unknown.
	Reliability *float64
	// Stale is true if the candidate has missed advertisements, Denied if an administrator does not
	// let it provide.
	Stale  bool
	Denied bool
	// Lending restricts the requesters to which the candidate lends; nil for no restriction. The
	// caller must not change it after Upsert.
	Lending *lending.Policy
	Region  string
	Zone    string
	// Labels and Claims are what the cluster states about itself. Constraints are matched against
	// them.
	Labels map[string]string
	Claims map[string]string
	// StoragePrice is the price of storing a GiB of data for an hour, EgressPrice is the price of
	// moving a GiB out of the candidate's region.
	StoragePrice Price
	EgressPrice  Price
	// Shapes counts the nodes by their free room, labels and taints. A candidate without Shapes is
	// rejected for requests with pod shapes, because sums do not tell whether a pod fits on a
	// node.
	Shapes []quantity.NodeShape
	// ReadyWithin is how long the candidate may take to create nodes; 0 if it creates none.
	ReadyWithin time.Duration
}

// Market is the table of all candidates. Decide, ExplainTop, Judge, Check and others share its
// scratch memory, so only one goroutine at a time may use a Market.
//
// A row is one candidate, which keeps its row until it is removed. Every column has one value for
// each row.
type Market struct {
	row  map[string]int32
	ids  []string
	free []int32

	// byName lists the occupied rows sorted by ID. rank maps a row to its index in byName, so
	// comparing two ranks is the same as comparing two IDs, but faster.
	byName []int32
	rank   []int32

	marks    []mark
	columns  []column
	columnOf map[corev1.ResourceName]int32
	// vacant lists the vacant columns. named holds the columns of each row besides the builtin ones.
	vacant []int32
	named  [][]int32

	availability []int64
	reliability  []int64
	rated        int

	currency   []uint16
	currencies []currency

	storage []float64
	egress  []float64
	rates   Rates

	facts  []facts
	index  index
	lends  []*lending.Policy
	shapes [][]shape
	// readyWithin is ReadyWithin of each row. It matters while newNodes is true.
	readyWithin []time.Duration
	newNodes    bool
	links       map[string]links
	// standings holds the Standing of each row, nil for none.
	standings []*Standing
	// exceeded maps a requester to the reasons why candidates do not serve it.
	exceeded map[string]*Excess

	scratch contest
}

// mark is a set of flags of a row.
type mark uint8

const (
	vacant mark = 1 << iota
	stale
	denied
	rated
	// choosy candidates restrict the requesters to which they lend.
	choosy
	// tainted candidates have nodes that only some requests tolerate.
	tainted
	// suspended candidates do not take new reservations of some or all requesters, see Standing.
	suspended
)

// ErrCandidate is matched by every error of Upsert.
var ErrCandidate = errors.New("candidate not accepted")

// NewMarket returns a market without candidates.
func NewMarket() *Market {
	m := &Market{
		row:        map[string]int32{},
		columnOf:   map[corev1.ResourceName]int32{},
		links:      map[string]links{},
		currencies: []currency{{}},
		index:      index{},
		exceeded:   map[string]*Excess{},
	}
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourcePods} {
		m.internColumn(name)
	}
	return m
}

// Len returns the number of candidates in the market.
func (m *Market) Len() int { return len(m.row) }

// Has reports whether the cluster is in the market.
func (m *Market) Has(id string) bool {
	_, ok := m.row[id]
	return ok
}

// After iterates once over all candidates except id, sorted by ID. It begins with the first one
// after id, and goes on with the lowest ID when it has reached the highest.
func (m *Market) After(id string) iter.Seq[string] {
	return func(yield func(string) bool) {
		from, _ := slices.BinarySearchFunc(m.byName, id, func(row int32, id string) int {
			return cmp.Compare(m.ids[row], id)
		})
		for k := range m.byName {
			row := m.byName[(from+k)%len(m.byName)]
			if m.ids[row] != id && !yield(m.ids[row]) {
				return
			}
		}
	}
}

// Upsert adds or replaces a candidate. The links, the Standing and the Excess stay as they are.
// After an error, nothing has changed.
func (m *Market) Upsert(c Candidate) error {
	if c.ID == "" {
		return fmt.Errorf("%w: it has no ID", ErrCandidate)
	}
	if c.Currency != "" && !money.IsCurrency(c.Currency) {
		return fmt.Errorf("%w: %q has prices in %q: give an ISO 4217 code such as EUR", ErrCandidate, c.ID, c.Currency)
	}
	i, known := m.row[c.ID]
	if !known {
		i = m.occupyRow(c.ID)
	}
	m.clearPrices(i)
	m.forgetColumns(i)
	for k := range builtinColumns {
		m.columns[k].allocatable[i], m.columns[k].available[i] = 0, neverAdvertised
	}
	for name, v := range c.Allocatable {
		col := m.nameColumn(i, name)
		col.allocatable[i], col.available[i] = max(v, 0), 0
	}
	for name, v := range c.Available {
		m.nameColumn(i, name).available[i] = max(v, 0)
	}
	m.setPrices(i, c)
	m.setMark(i, stale, c.Stale)
	m.setMark(i, denied, c.Denied)
	m.setMark(i, choosy, c.Lending != nil)
	m.lends[i] = c.Lending
	m.setReliability(i, c.Reliability)
	m.setFacts(i, facts{c.Region, c.Zone, c.Labels, c.Claims})
	m.setShapes(i, c.Shapes)
	m.readyWithin[i] = c.ReadyWithin
	m.updateAvailability(i)
	return nil
}

// CountNewNodes says whether the free amounts and the shapes of candidates with ReadyWithin include
// nodes that they would create.
func (m *Market) CountNewNodes(count bool) { m.newNodes = count }

// SetAvailable replaces a candidate's free amounts and reports whether the candidate is in the
// market. The free amount of an advertised resource that is missing in available becomes 0. A
// resource that the candidate did not name before is ignored while its amount is 0.
func (m *Market) SetAvailable(id string, available quantity.Amounts) bool {
	i, ok := m.row[id]
	if !ok {
		return false
	}
	for k := range m.columns {
		col := &m.columns[k]
		if _, named := available[col.name]; !named && col.available[i] > 0 {
			col.available[i] = 0
		}
	}
	for name, v := range available {
		if col := m.columnIn(i, name); v > 0 || col != nil && col.available[i] != neverAdvertised {
			m.nameColumn(i, name).available[i] = max(v, 0)
		}
	}
	m.updateAvailability(i)
	return true
}

// SetShapes replaces the shapes of a candidate's nodes and reports whether the candidate is in the
// market. It ignores resources that the candidate does not name itself.
func (m *Market) SetShapes(id string, shapes []quantity.NodeShape) bool {
	return m.updateRow(id, func(i int32) { m.setShapes(i, shapes) })
}

// updateRow calls change with the row of a candidate and reports whether the candidate is in the market.
func (m *Market) updateRow(id string, change func(i int32)) bool {
	i, ok := m.row[id]
	if ok {
		change(i)
	}
	return ok
}

func (m *Market) setShapes(i int32, shapes []quantity.NodeShape) {
	m.shapes[i] = m.readShapes(i, shapes)
	m.setMark(i, tainted, slices.ContainsFunc(m.shapes[i], func(s shape) bool { return len(s.taints) > 0 }))
}

// SetStale marks a candidate stale or fresh and reports whether the candidate is in the market.
func (m *Market) SetStale(id string, isStale bool) bool {
	return m.updateRow(id, func(i int32) { m.setMark(i, stale, isStale) })
}

// SetDenied sets whether a candidate is denied, and reports whether the candidate is in the
// market.
func (m *Market) SetDenied(id string, isDenied bool) bool {
	return m.updateRow(id, func(i int32) { m.setMark(i, denied, isDenied) })
}

// SetReliability sets the share of promises that a candidate has kept, nil if unknown, and reports
// whether the candidate is in the market.
func (m *Market) SetReliability(id string, share *float64) bool {
	return m.updateRow(id, func(i int32) { m.setReliability(i, share) })
}

// Remove removes a candidate and all its links from the market and reports whether the candidate
// was there.
func (m *Market) Remove(id string) bool {
	i, ok := m.row[id]
	if !ok {
		return false
	}
	m.clearPrices(i)
	m.forgetColumns(i)
	m.setReliability(i, nil)
	m.forgetLinks(id, i)
	m.byName = slices.Delete(m.byName, int(m.rank[i]), int(m.rank[i])+1)
	m.renumberRows(int(m.rank[i]))
	m.marks[i] = vacant
	m.availability[i] = 0
	m.setFacts(i, facts{})
	m.ids[i], m.shapes[i], m.lends[i], m.standings[i] = "", nil, nil, nil
	delete(m.row, id)
	m.free = append(m.free, i)
	return true
}

// occupyRow gives a new candidate a vacant row, or appends a row.
func (m *Market) occupyRow(id string) int32 {
	i := int32(len(m.ids))
	if n := len(m.free); n > 0 {
		i, m.free = m.free[n-1], m.free[:n-1]
	} else {
		m.growColumns()
	}
	m.ids[i], m.row[id], m.marks[i] = id, i, 0
	at, _ := slices.BinarySearchFunc(m.byName, id, func(row int32, id string) int {
		return cmp.Compare(m.ids[row], id)
	})
	m.byName = slices.Insert(m.byName, at, i)
	m.renumberRows(at)
	return i
}

func (m *Market) growColumns() {
	m.ids = append(m.ids, "")
	m.rank = append(m.rank, 0)
	m.marks = append(m.marks, vacant)
	m.availability = append(m.availability, 0)
	m.reliability = append(m.reliability, reliabilityScore(nil))
	m.currency = append(m.currency, noCurrency)
	m.storage = append(m.storage, 0)
	m.egress = append(m.egress, 0)
	m.facts = append(m.facts, facts{})
	m.shapes = append(m.shapes, nil)
	m.readyWithin = append(m.readyWithin, 0)
	m.lends = append(m.lends, nil)
	m.standings = append(m.standings, nil)
	m.named = append(m.named, nil)
	m.scratch.linkAt = append(m.scratch.linkAt, 0)
	for k := range m.columns {
		col := &m.columns[k]
		col.allocatable = append(col.allocatable, 0)
		col.available = append(col.available, neverAdvertised)
		col.price = append(col.price, 0)
	}
}

func (m *Market) renumberRows(from int) {
	for at := from; at < len(m.byName); at++ {
		m.rank[m.byName[at]] = int32(at)
	}
}

func (m *Market) setMark(i int32, which mark, on bool) {
	m.marks[i] &^= which
	if on {
		m.marks[i] |= which
	}
}

func (m *Market) setReliability(i int32, share *float64) {
	if m.marks[i]&rated != 0 {
		m.rated--
	}
	if share != nil {
		m.rated++
	}
	m.setMark(i, rated, share != nil)
	m.reliability[i] = reliabilityScore(share)
}

func (m *Market) updateAvailability(i int32) {
	cpu, memory := &m.columns[cpuColumn], &m.columns[memoryColumn]
	m.availability[i] = availabilityScore(cpu.available[i], cpu.allocatable[i], memory.available[i], memory.allocatable[i])
}
