package ledger

import (
	"fmt"
	"time"
)

// Forget drops ended reservations and closed keys from the book. Their keys can then be used again.
type Forget struct {
	Names []string   `json:"names,omitempty"`
	Keys  []CloseKey `json:"keys,omitempty"`
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
		delete(s.closedKeys, keyRef{k.Requester, k.Key})
	}
}
