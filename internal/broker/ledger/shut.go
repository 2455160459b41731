package ledger

import (
	"cmp"
	"time"
)

// Shut closes a key that names no reservation, so that a later request with this key is refused. A
// requester closes the key of a request that it no longer wants and that may still be on its way.
type Shut struct {
	Requester string `json:"requester"`
	Key       string `json:"key"`
}

// ShutKeys calls f for every closed key and the time at which it was closed, in random order.
func (s *State) ShutKeys(f func(Shut, time.Time)) {
	for ref, at := range s.shut {
		f(Shut{Requester: ref.requester, Key: ref.key}, at)
	}
}

func (*Shut) subject() string { return "" }

func (k *Shut) checkAgainst(s *State) error { return s.checkKeyFree(k.Requester, k.Key) }

func (k *Shut) applyTo(s *State, at time.Time) {
	s.shut[keyRef{k.Requester, k.Key}] = at
}

func (k Shut) compareKeys(other Shut) int {
	return cmp.Or(cmp.Compare(k.Requester, other.Requester), cmp.Compare(k.Key, other.Key))
}
