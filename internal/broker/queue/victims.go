package queue

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Holder is a placement that holds capacity, and that may be evicted for a waiter of higher
// priority.
type Holder struct {
	ID string
	// Priority is the priority of the placement.
	Priority int32
	// Since is when the placement was made.
	Since time.Time
	// Amounts are the resources that become free when the holder is evicted.
	Amounts quantity.Amounts
}

// Site is a cluster that could serve a waiter if some of its holders were evicted.
type Site struct {
	ID string
	// Free are the resources that are free without an eviction. They may be negative.
	Free    quantity.Amounts
	Holders []Holder
}

// Sacrifice is a set of holders on one cluster whose eviction would make room for a waiter.
type Sacrifice struct {
	Site string
	// Victims are the holders to evict, in the order of compareEviction.
	Victims []Holder
}

// compareEviction orders holders by who is evicted first: the lower priority, then the younger
// placement, then the smaller ID.
func (a Holder) compareEviction(b Holder) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since), cmp.Compare(a.ID, b.ID))
}

// searchSteps is the maximum number of steps of the search on one cluster. If they do not
// suffice, the result of pickGreedily is used, which may evict more holders than necessary.
const searchSteps = 20_000

// Preempt returns the cluster on which evicting holders of lower priority makes room for needs,
// and these holders; false if there is no such cluster. It chooses the set with the fewest
// holders. Among sets of equal size, it prefers holders of lower priority, then younger ones. It
// compares two sets holder by holder, beginning with the last one in the order of eviction. If two
// sets are equal in all of this, it chooses the set on the cluster whose name sorts first.
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

// findVictims returns the holders to evict on one cluster. It returns false if no eviction is
// needed, or if evicting all holders of lower priority would not make enough room.
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

func lackOf(needs, free quantity.Amounts) quantity.Amounts {
	lack := needs.Sub(free)
	for name, missing := range lack {
		if missing <= 0 || needs[name] <= 0 {
			delete(lack, name)
		}
	}
	return lack
}

// pickGreedily picks holders in the order of eviction until there is enough room. Then it
// removes holders that are not needed from this set, the last ones first. It returns nil if
// even all holders would not make enough room.
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

// search looks for a set of a given number of holders that makes enough room. It tries the sets
// in the order of preference: a set whose last holder comes earlier in the order of eviction is
// tried first.
type search struct {
	lower []Holder
	// amounts[i] are the amounts of lower[i], one for each missing resource. most[i] are the
	// maxima of these amounts among the first i holders.
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

// searchSets picks n holders, in addition to those already picked, so that all picked holders
// together cover what is missing. It picks them among the first holders of lower; the parameter
// among is the number of these. It reports whether it succeeded.
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

// canCover reports whether n holders, of which the last one is lower[last], can possibly cover
// what is missing. It assumes that each of the other holders has the maximum amounts.
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
