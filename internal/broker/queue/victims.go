package queue

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Holder holds capacity that a waiter of higher priority may take.
type Holder struct {
	ID string
	// Priority is that of the placement.
	Priority int32
	// Since is when it was placed.
	Since time.Time
	// Amounts are the amounts that become free if the holder is evicted.
	Amounts quantity.Amounts
}

// Site is a cluster that could serve a waiter after evicting some holders.
type Site struct {
	ID string
	// Free is the amount that is free without an eviction; it may be negative.
	Free    quantity.Amounts
	Holders []Holder
}

// Sacrifice is a set of victims on one site.
type Sacrifice struct {
	Site string
	// Victims are ordered from the first to be evicted to the last, see compareEviction.
	Victims []Holder
}

// compareEviction sorts holders in the order of eviction: lower priority first, then the
// younger, then the first by name.
func (a Holder) compareEviction(b Holder) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since), cmp.Compare(a.ID, b.ID))
}

// searchSteps bounds the search on one site. If it is exhausted, the greedy result is used,
// which may evict more holders than necessary.
const searchSteps = 20_000

// Preempt returns the site where evicting the fewest holders of lower priority makes room for
// needs; false if there is no such site. Among sets of equal size it compares the last victims,
// then those before them, and prefers the set whose victim is evicted first. Among equal sets
// it takes the first site by name.
func Preempt(needs quantity.Amounts, priority int32, sites []Site) (Sacrifice, bool) {
	var best Sacrifice
	for _, s := range sites {
		victims, ok := s.findVictims(needs, priority)
		if !ok {
			continue
		}
		found := Sacrifice{s.ID, victims}
		if best.Site == "" || found.compareSacrifice(best) < 0 {
			best = found
		}
	}
	return best, best.Site != ""
}

func (s Sacrifice) compareSacrifice(other Sacrifice) int {
	if c := cmp.Compare(len(s.Victims), len(other.Victims)); c != 0 {
		return c
	}
	for i, a := range slices.Backward(s.Victims) {
		b := other.Victims[i]
		if c := cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since)); c != 0 {
			return c
		}
	}
	return cmp.Compare(s.Site, other.Site)
}

// findVictims returns the victims on one site, or none if the needs already fit. It returns
// false if evicting all holders of lower priority does not make enough room.
func (s *Site) findVictims(needs quantity.Amounts, priority int32) ([]Holder, bool) {
	lower := slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return h.Priority >= priority })
	slices.SortFunc(lower, Holder.compareEviction)
	lack := lackOf(needs, s.Free)
	if len(lack) == 0 {
		return nil, false
	}
	some := pickGreedily(lack, lower)
	if some == nil {
		return nil, false
	}
	search := newSearch(lack, lower)
	for n := 1; n < len(some); n++ {
		if search.searchSets(n, len(lower)) {
			return search.listVictims(), true
		}
		if search.steps > searchSteps {
			return some, true
		}
	}
	if search.searchSets(len(some), len(lower)) {
		return search.listVictims(), true
	}
	return some, true
}

// lackOf returns the missing amount of each resource, without resources that are not short.
func lackOf(needs, free quantity.Amounts) quantity.Amounts {
	lack := needs.Sub(free)
	for name, missing := range lack {
		if missing <= 0 || needs[name] <= 0 {
			delete(lack, name)
		}
	}
	return lack
}

// pickGreedily takes holders in order until there is room. Then it spares unnecessary ones, the
// last ones first. It returns nil if there is never room.
func pickGreedily(lack quantity.Amounts, lower []Holder) []Holder {
	sum, taken := quantity.Amounts{}, 0
	for ; taken < len(lower) && !coversLack(sum, lack); taken++ {
		sum = sum.Add(lower[taken].Amounts)
	}
	if !coversLack(sum, lack) {
		return nil
	}
	victims := slices.Clone(lower[:taken])
	for i, v := range slices.Backward(victims) {
		if without := sum.Sub(v.Amounts); coversLack(without, lack) {
			sum, victims = without, slices.Delete(victims, i, i+1)
		}
	}
	return victims
}

func coversLack(sum, lack quantity.Amounts) bool {
	_, ok := quantity.Fits(lack, sum)
	return ok
}

// search tries sets of holders of one size in the order of preference: sets whose last member
// is evicted earlier come first.
type search struct {
	lower []Holder
	// amounts holds the amounts of lower by resource; most[i] is the maximum among the first i
	// of them.
	amounts, most [][]int64
	lack          []int64
	picked        []int
	steps         int
}

func newSearch(lack quantity.Amounts, lower []Holder) *search {
	names := lack.Names()
	s := &search{lower: lower, lack: toColumnsOf(names, lack), most: [][]int64{make([]int64, len(names))}}
	for i, h := range lower {
		amounts := toColumnsOf(names, h.Amounts)
		most := slices.Clone(s.most[i])
		for k := range most {
			most[k] = max(most[k], amounts[k])
		}
		s.amounts, s.most = append(s.amounts, amounts), append(s.most, most)
	}
	return s
}

func toColumnsOf(names []corev1.ResourceName, amounts quantity.Amounts) []int64 {
	out := make([]int64, len(names))
	for k, name := range names {
		out[k] = amounts[name]
	}
	return out
}

// searchSets picks n more among the first holders of lower so that they cover the missing
// amounts.
func (s *search) searchSets(n, among int) bool {
	if n == 0 {
		return !slices.ContainsFunc(s.lack, func(l int64) bool { return l > 0 })
	}
	for last := n - 1; last < among; last++ {
		if s.steps++; s.steps > searchSteps {
			return false
		}
		if !s.canCover(n, last) {
			continue
		}
		s.addAmounts(last, -1)
		s.picked = append(s.picked, last)
		if s.searchSets(n-1, last) {
			return true
		}
		s.picked = s.picked[:len(s.picked)-1]
		s.addAmounts(last, 1)
	}
	return false
}

// canCover reports whether the holder at last and the largest n-1 before it can cover the
// missing amounts.
func (s *search) canCover(n, last int) bool {
	for k, lack := range s.lack {
		rest := lack - s.amounts[last][k]
		if rest > 0 && (n == 1 || (rest-1)/int64(n-1) >= s.most[last][k]) {
			return false
		}
	}
	return true
}

func (s *search) addAmounts(i int, sign int64) {
	for k := range s.lack {
		s.lack[k] += sign * s.amounts[i][k]
	}
}

func (s *search) listVictims() []Holder {
	out := make([]Holder, 0, len(s.picked))
	for _, i := range slices.Backward(s.picked) {
		out = append(out, s.lower[i])
	}
	return out
}
