package ledger

import (
	"encoding/binary"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// shared interns amounts and strings. Most reservations have the same few amounts and strings
// and name the same few clusters. Without interning, each of 100,000 reservations would have
// its own copies. Interned values must not be changed.
type shared struct {
	amounts map[string]quantity.Amounts
	words   map[string]string
}

// maxShared bounds the number of interned amounts and that of strings, in case hardly any are
// equal.
const maxShared = 1024

func newShared() shared {
	return shared{amounts: map[string]quantity.Amounts{}, words: map[string]string{}}
}

// internRequest replaces amounts and strings of a request by interned ones.
func (s *State) internRequest(r *Reserve) {
	r.Amounts = s.shared.internAmounts(r.Amounts)
	r.Requester, r.Provider, r.Target = s.internClusterID(r.Requester), s.internClusterID(r.Provider), s.internClusterID(r.Target)
	r.Tenant, r.Digest = s.shared.internWord(r.Tenant), s.shared.internWord(r.Digest)
}

// internClusterID returns the string of the cluster itself if it is known.
func (s *State) internClusterID(id string) string {
	if c := s.Cluster(id); c != nil {
		return c.ClusterID
	}
	return s.shared.internWord(id)
}

// internAmounts returns amounts equal to a.
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

// internWord returns a string equal to w.
func (s shared) internWord(w string) string {
	if w == "" {
		return w
	}
	return internIn(s.words, w, w)
}

func internIn[T any](known map[string]T, key string, value T) T {
	if found, ok := known[key]; ok {
		return found
	}
	if len(known) >= maxShared {
		clear(known)
	}
	known[key] = value
	return value
}

// Equal makes cmp ignore interned values: they are not part of the book.
func (shared) Equal(shared) bool { return true }
