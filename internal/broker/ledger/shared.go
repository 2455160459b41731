package ledger

import (
	"encoding/binary"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// shared is what many reservations have the same of: most ask for the same few amounts,
// in the same words, for the same few clusters, and each of a hundred thousand would have
// copies of its own. Nobody changes what is shared.
type shared struct {
	amounts map[string]quantity.Amounts
	words   map[string]string
}

// maxShared bounds what is remembered of each where hardly any are the same.
const maxShared = 1024

func newShared() shared {
	return shared{amounts: map[string]quantity.Amounts{}, words: map[string]string{}}
}

// share has a request share what it can.
func (s *State) share(r *Reserve) {
	r.Amounts = s.shared.ofAmounts(r.Amounts)
	r.Requester, r.Provider, r.Target = s.clusterWord(r.Requester), s.clusterWord(r.Provider), s.clusterWord(r.Target)
	r.Tenant, r.Digest = s.shared.word(r.Tenant), s.shared.word(r.Digest)
}

// clusterWord is a cluster's ID, or whatever else stands in its place.
func (s *State) clusterWord(id string) string {
	if c := s.clusters[id]; c != nil {
		return c.ClusterID
	}
	return s.shared.word(id)
}

// ofAmounts returns amounts equal to a that others may have, too.
func (s shared) ofAmounts(a quantity.Amounts) quantity.Amounts {
	if len(a) == 0 {
		return a
	}
	var key []byte
	for _, name := range a.Names() {
		key = append(append(key, name...), 0)
		key = binary.BigEndian.AppendUint64(key, uint64(a[name]))
	}
	return remember(s.amounts, string(key), a)
}

// word returns a string equal to w that others may have, too.
func (s shared) word(w string) string {
	if w == "" {
		return w
	}
	return remember(s.words, w, w)
}

func remember[T any](known map[string]T, key string, value T) T {
	if found, ok := known[key]; ok {
		return found
	}
	if len(known) >= maxShared {
		clear(known)
	}
	known[key] = value
	return value
}

// Equal is true: what is remembered says nothing of the book.
func (shared) Equal(shared) bool { return true }
