package ledger

import (
	"cmp"
	"fmt"
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

// Forget drops ended reservations and closed keys from the book. Their keys can then be used again.
type Forget struct {
	Names []string `json:"names,omitempty"`
	Keys  []Shut   `json:"keys,omitempty"`
}

func (*Forget) subject() string { return "" }

func (f *Forget) checkAgainst(s *State) error {
	for _, name := range f.Names {
		r := s.reservations[name]
		if r == nil {
			return fmt.Errorf("reservation %q: %w", name, ErrUnknown)
		}
		if !r.Over() {
			return fmt.Errorf("reservation %q: %w: it is not over", name, ErrTaken)
		}
	}
	return nil
}

func (f *Forget) applyTo(s *State, _ time.Time) {
	for _, name := range f.Names {
		r := s.reservations[name]
		if r == nil {
			continue // the event names this reservation twice
		}
		delete(s.keys, keyRef{r.Requester, r.Key})
		delete(s.reservations, name)
	}
	for _, k := range f.Keys {
		delete(s.shut, keyRef{k.Requester, k.Key})
	}
}

func (k Shut) compareKeys(other Shut) int {
	return cmp.Or(cmp.Compare(k.Requester, other.Requester), cmp.Compare(k.Key, other.Key))
}
