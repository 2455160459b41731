package ledger

import (
	"encoding/binary"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// shared interns amounts, strings, prices and actors: equal values are stored only once. Most
// reservations have one of a few values. Without interning, each of 100,000 reservations would have
// its own copies. Interned values must not be modified.
type shared struct {
	amounts map[string]quantity.Amounts
	words   map[string]string
	prices  map[string]*Price
	actors  map[Actor]*Actor
}

// maxShared is how many values of each kind are remembered. If hardly any values are equal, this
// limits memory.
const maxShared = 1024

func (s *State) internRequest(r *Reserve) {
	r.Amounts = s.shared.internAmounts(r.Amounts)
	r.Requester, r.Provider, r.Target = s.internClusterID(r.Requester), s.internClusterID(r.Provider), s.internClusterID(r.Target)
	r.Tenant, r.Digest = s.shared.internWord(r.Tenant), s.shared.internWord(r.Digest)
}

func (s *State) internClusterID(id string) string {
	if c := s.Cluster(id); c != nil {
		return c.ClusterID
	}
	return s.shared.internWord(id)
}

func (s shared) internAmounts(a quantity.Amounts) quantity.Amounts {
	if len(a) == 0 {
		return a
	}
	var key []byte
	for _, name := range a.Names() {
		key = append(append(key, name...), 0)
		key = binary.BigEndian.AppendUint64(key, uint64(a[name]))
	}
	return internIn(s.amounts, string(key), a)
}

func (s shared) internWord(w string) string {
	if w == "" {
		return w
	}
	return internIn(s.words, w, w)
}

func internIn[K comparable, T any](known map[K]T, key K, value T) T {
	if found, ok := known[key]; ok {
		return found
	}
	if len(known) >= maxShared {
		clear(known)
	}
	known[key] = value
	return value
}

// Equal makes github.com/google/go-cmp ignore the interned values when tests compare two States:
// they are not part of the book.
func (shared) Equal(shared) bool { return true }
