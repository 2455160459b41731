package queue

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Holder holds capacity that a waiter may take.
type Holder struct {
	ID string
	// Priority with which it stands.
	Priority int32
	// Since is when it got its place.
	Since time.Time
	// Amounts that are free once it has gone.
	Amounts quantity.Amounts
}

// Site is a cluster that could serve a waiter if some of its holders were gone.
type Site struct {
	ID string
	// Free without that; it may lie below zero.
	Free    quantity.Amounts
	Holders []Holder
}

// Sacrifice is who has to go, and from where.
type Sacrifice struct {
	Site string
	// Victims from the first to go to the last: see Yields.
	Victims []Holder
}

// Yields is whether a goes rather than b: the lower priority, then the younger one,
// then the first by name.
func (a Holder) Yields(b Holder) bool { return a.compare(b) < 0 }

func (a Holder) compare(b Holder) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), b.Since.Compare(a.Since), cmp.Compare(a.ID, b.ID))
}

// searchSteps bounds the search on one site. Where it ends early, what was found in
// the order of Yields stands: it may be more than the fewest.
const searchSteps = 20_000

// Preempt says on which site the fewest holders of a lower priority have to go to make
// room for needs; false if there is no such site. Among as many, the set goes of which
// the last to go would yield to that of the other set, then the one before it, and so
// on; then the site that is first by name.
func Preempt(needs quantity.Amounts, priority int32, sites []Site) (Sacrifice, bool) {
	var best Sacrifice
	for _, s := range sites {
		victims, ok := s.victims(needs, priority)
		if !ok {
			continue
		}
		found := Sacrifice{s.ID, victims}
		if best.Site == "" || found.compare(best) < 0 {
			best = found
		}
	}
	return best, best.Site != ""
}

func (s Sacrifice) compare(other Sacrifice) int {
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

// victims of one site, none where the needs fit without. It is false where not even
// all of a lower priority make room.
func (s *Site) victims(needs quantity.Amounts, priority int32) ([]Holder, bool) {
	lower := slices.DeleteFunc(slices.Clone(s.Holders), func(h Holder) bool { return h.Priority >= priority })
	slices.SortFunc(lower, Holder.compare)
	lack := lackOf(needs, s.Free)
	if len(lack) == 0 {
		return nil, false
	}
	some := greedy(lack, lower)
	if some == nil {
		return nil, false
	}
	search := newSearch(lack, lower)
	for n := 1; n < len(some); n++ {
		if search.choose(n, len(lower)) {
			return search.chosen(), true
		}
		if search.steps > searchSteps {
			return some, true
		}
	}
	if search.choose(len(some), len(lower)) {
		return search.chosen(), true
	}
	return some, true
}

// lackOf is what is missing of each resource; those are left out of which nothing is.
func lackOf(needs, free quantity.Amounts) quantity.Amounts {
	lack := needs.Sub(free)
	for name, missing := range lack {
		if missing <= 0 || needs[name] <= 0 {
			delete(lack, name)
		}
	}
	return lack
}

// greedy takes holders in their order until there is room, then lets those stand
// without whom there is room too, the last ones first; nil if there never is.
func greedy(lack quantity.Amounts, lower []Holder) []Holder {
	sum, taken := quantity.Amounts{}, 0
	for ; taken < len(lower) && !covers(sum, lack); taken++ {
		sum = sum.Add(lower[taken].Amounts)
	}
	if !covers(sum, lack) {
		return nil
	}
	victims := slices.Clone(lower[:taken])
	for i, v := range slices.Backward(victims) {
		if without := sum.Sub(v.Amounts); covers(without, lack) {
			sum, victims = without, slices.Delete(victims, i, i+1)
		}
	}
	return victims
}

func covers(sum, lack quantity.Amounts) bool {
	_, ok := quantity.Fits(lack, sum)
	return ok
}

// search tries sets of holders of one size, in the order in which they are preferred:
// those first whose last member is the first to go.
type search struct {
	lower []Holder
	// amounts of lower, and the most of any of its first so many, by resource.
	amounts, most [][]int64
	lack          []int64
	picked        []int
	steps         int
}

func newSearch(lack quantity.Amounts, lower []Holder) *search {
	names := lack.Names()
	s := &search{lower: lower, lack: columns(names, lack), most: [][]int64{make([]int64, len(names))}}
	for i, h := range lower {
		amounts := columns(names, h.Amounts)
		most := slices.Clone(s.most[i])
		for k := range most {
			most[k] = max(most[k], amounts[k])
		}
		s.amounts, s.most = append(s.amounts, amounts), append(s.most, most)
	}
	return s
}

func columns(names []corev1.ResourceName, amounts quantity.Amounts) []int64 {
	out := make([]int64, len(names))
	for k, name := range names {
		out[k] = amounts[name]
	}
	return out
}

// choose finds n more among the first of lower that cover what is lacking.
func (s *search) choose(n, among int) bool {
	if n == 0 {
		return !slices.ContainsFunc(s.lack, func(l int64) bool { return l > 0 })
	}
	for last := n - 1; last < among; last++ {
		if s.steps++; s.steps > searchSteps {
			return false
		}
		if !s.possible(n, last) {
			continue
		}
		s.add(last, -1)
		s.picked = append(s.picked, last)
		if s.choose(n-1, last) {
			return true
		}
		s.picked = s.picked[:len(s.picked)-1]
		s.add(last, 1)
	}
	return false
}

// possible is whether the last one and the most of n-1 before it cover what is lacking.
func (s *search) possible(n, last int) bool {
	for k, lack := range s.lack {
		rest := lack - s.amounts[last][k]
		if rest > 0 && (n == 1 || (rest-1)/int64(n-1) >= s.most[last][k]) {
			return false
		}
	}
	return true
}

func (s *search) add(i int, sign int64) {
	for k := range s.lack {
		s.lack[k] += sign * s.amounts[i][k]
	}
}

func (s *search) chosen() []Holder {
	out := make([]Holder, 0, len(s.picked))
	for _, i := range slices.Backward(s.picked) {
		out = append(out, s.lower[i])
	}
	return out
}
