package decision

import (
	"maps"
	"slices"
	"strings"

	"github.com/mehdiazizian/liqo-resource-broker/internal/requirements"
)

// facts are what a candidate states about itself.
type facts struct {
	region, zone   string
	labels, claims map[string]string
}

type factKind uint8

const (
	regionFact factKind = iota
	zoneFact
	labelFact
	claimFact
)

type factKey struct {
	kind factKind
	name string
}

// index maps every fact and each of its values to the rows with that value, sorted. With this
// index, a constraint is resolved once for a decision instead of once for each candidate.
type index map[factKey]map[string][]int32

func (x index) addRow(i int32, f facts) {
	f.eachFact(func(k factKey, value string) {
		values := x[k]
		if values == nil {
			values = map[string][]int32{}
			x[k] = values
		}
		rows := values[value]
		at, _ := slices.BinarySearch(rows, i)
		values[value] = slices.Insert(rows, at, i)
	})
}

func (x index) removeRow(i int32, f facts) {
	f.eachFact(func(k factKey, value string) {
		values := x[k]
		rows := values[value]
		at, found := slices.BinarySearch(rows, i)
		if !found {
			return
		}
		if rows = slices.Delete(rows, at, at+1); len(rows) > 0 {
			values[value] = rows
			return
		}
		if delete(values, value); len(values) == 0 {
			delete(x, k)
		}
	})
}

func (f facts) eachFact(tell func(factKey, string)) {
	if f.region != "" {
		tell(factKey{kind: regionFact}, f.region)
	}
	if f.zone != "" {
		tell(factKey{kind: zoneFact}, f.zone)
	}
	for name, value := range f.labels {
		tell(factKey{labelFact, name}, value)
	}
	for name, value := range f.claims {
		tell(factKey{claimFact, name}, value)
	}
}

func (f facts) hasData(dataSet string) bool {
	for name := range f.labels {
		if rest, ok := strings.CutSuffix(name, dataSet); ok && rest == requirements.DataLabel("") {
			return true
		}
	}
	return false
}

func (m *Market) setFacts(i int32, f facts) {
	if g := m.facts[i]; f.region == g.region && f.zone == g.zone && maps.Equal(f.labels, g.labels) && maps.Equal(f.claims, g.claims) {
		return
	}
	m.index.removeRow(i, m.facts[i])
	m.facts[i] = facts{f.region, f.zone, maps.Clone(f.labels), maps.Clone(f.claims)}
	m.index.addRow(i, m.facts[i])
}
