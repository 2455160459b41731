package ledger

import (
	"cmp"
	"time"
)

// CloseKey closes a key that names no reservation, so that a later request with this key is refused. A
// requester closes the key of a request that it no longer wants and that may still be on its way.
type CloseKey struct {
	Requester string `json:"requester"`
	Key       string `json:"key"`
}

// ClosedKeys calls f for every closed key and the time at which it was closed, in random order.
func (s *State) ClosedKeys(f func(CloseKey, time.Time)) {
	for ref, at := range s.closedKeys {
		f(CloseKey{Requester: ref.requester, Key: ref.key}, at)
	}
}

func (*CloseKey) subject() string { return "" }

func (k *CloseKey) checkAgainst(s *State) error { return s.checkKeyFree(k.Requester, k.Key) }

func (k *CloseKey) applyTo(s *State, at time.Time) {
	s.closedKeys[keyRef{k.Requester, k.Key}] = at
}

func (k CloseKey) compareKeys(other CloseKey) int {
	return cmp.Or(cmp.Compare(k.Requester, other.Requester), cmp.Compare(k.Key, other.Key))
}
