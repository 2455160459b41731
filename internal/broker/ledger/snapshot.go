package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/money"
)

// Frozen is a copy of the book at one position. It can be encoded while the book keeps changing.
type Frozen struct{ snapshot }

// Restore decodes a snapshot. A snapshot does not contain the amounts that placements hold: Restore
// computes them from the placements, so the two cannot disagree.
func Restore(b []byte) (*State, error) {
	var in snapshot
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("reading a snapshot of the ledger: %w", err)
	}
	s := New()
	if err := restoreAll(s, &in); err != nil {
		return nil, fmt.Errorf("reading a snapshot of the ledger: %w", err)
	}
	return s, nil
}

// Freeze copies the parts of the book that later events modify in place. Copying takes much less
// time than encoding.
func (s *State) Freeze() *Frozen {
	out := snapshot{Position: s.position, Latest: s.latest, Branches: slices.Clone(s.lineages.branches), Key: s.lineages.key, Quotes: s.quotes.copyAll(), Configuration: s.clusters.configuration}
	for _, c := range s.clusters.byID {
		out.Clusters = append(out.Clusters, c.ClusterState)
	}
	// One allocation for all copies.
	copies := make([]Reservation, 0, len(s.reservations))
	for _, r := range s.reservations {
		copies = append(copies, r.copyReservation())
	}
	for i := range copies {
		out.Reservations = append(out.Reservations, &copies[i])
	}
	for ref, at := range s.closedKeys {
		out.ClosedKeys = append(out.ClosedKeys, snapshotKey{CloseKey{ref.requester, ref.key}, at})
	}
	return &Frozen{out}
}

// Bytes encodes the whole book. Equal books have equal encodings.
func (f *Frozen) Bytes() ([]byte, error) {
	slices.SortFunc(f.Clusters, func(a, b ClusterState) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	slices.SortFunc(f.Reservations, func(a, b *Reservation) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(f.ClosedKeys, func(a, b snapshotKey) int { return a.compareKeys(b.CloseKey) })
	slices.SortFunc(f.Quotes, func(a, b *Quote) int { return cmp.Or(cmp.Compare(a.Changed, b.Changed), cmp.Compare(a.Name, b.Name)) })
	b, err := f.marshalAll()
	if err != nil {
		return nil, fmt.Errorf("writing a snapshot of the ledger: %w", err)
	}
	return b, nil
}

type snapshot struct {
	Position      uint64         `json:"position"`
	Latest        Instant        `json:"latest,omitzero"`
	Clusters      []ClusterState `json:"clusters,omitempty"`
	Reservations  []*Reservation `json:"reservations,omitempty"`
	ClosedKeys    []snapshotKey  `json:"shut,omitempty"`
	Branches      []Branch       `json:"branches,omitempty"`
	Quotes        []*Quote       `json:"quotes,omitempty"`
	Configuration Configuration  `json:"configuration,omitzero"`
	Key           []byte         `json:"key,omitempty"`
}

type snapshotKey struct {
	CloseKey
	At time.Time `json:"at"`
}

// copyReservation returns a copy that later events do not modify. The copy shares with r only
// values that events replace but never modify.
func (r *Reservation) copyReservation() Reservation {
	out := *r
	out.Placements = slices.Clone(r.Placements)
	if r.Waiting != nil {
		waiting := *r.Waiting
		out.Waiting = &waiting
	}
	if r.Notice != nil {
		notice := *r.Notice
		out.Notice = &notice
	}
	return out
}

// marshalAll encodes the book. It encodes reservations one by one to save memory: they make up most
// of a book, and encoding/json needs three times the memory of its output.
func (f *Frozen) marshalAll() ([]byte, error) {
	rest := f.snapshot
	rest.Reservations = nil
	b, err := json.Marshal(rest)
	if err != nil || len(f.Reservations) == 0 {
		return b, err
	}
	b = append(b[:len(b)-1], `,"reservations":[`...)
	for i, r := range f.Reservations {
		one, err := json.Marshal(r)
		if err != nil {
			return nil, err
		}
		if i == 0 {
			b = slices.Grow(b, len(f.Reservations)*(len(one)+len(one)/8))
		} else {
			b = append(b, ',')
		}
		b = append(b, one...)
	}
	return append(b, "]}"...), nil
}

func restoreAll(s *State, in *snapshot) error {
	if err := in.Configuration.check(); err != nil {
		return err
	}
	s.position, s.latest, s.lineages, s.clusters.configuration = in.Position, in.Latest, Lineages{in.Branches, in.Key}, in.Configuration
	for _, c := range in.Clusters {
		if err := s.clusters.restoreCluster(c); err != nil {
			return err
		}
	}
	for _, r := range in.Reservations {
		if err := restoreReservation(s, r); err != nil {
			return err
		}
	}
	for _, q := range in.Quotes {
		if err := restoreQuote(s, q); err != nil {
			return err
		}
	}
	for _, k := range in.ClosedKeys {
		if err := s.checkKeyFree(k.Requester, k.Key); err != nil {
			return err
		}
		s.closedKeys[keyRef{k.Requester, k.Key}] = k.At
	}
	for _, c := range s.clusters.byID {
		c.recountClaimed()
	}
	return nil
}

func (cs *clusters) restoreCluster(c ClusterState) error {
	if cs.byID[c.ClusterID] != nil {
		return fmt.Errorf("cluster %q: %w", c.ClusterID, ErrTaken)
	}
	if err := c.Offer.checkFields(); err != nil {
		return err
	}
	restored := newCluster(c)
	restored.stretch, restored.tariff = cs.stretchOf(&c.Offer), money.ReadTariff(c.Cost)
	cs.byID[c.ClusterID] = restored
	cs.indexManifest(restored, nil)
	return nil
}

func restoreReservation(s *State, r *Reservation) error {
	if r == nil || r.Name == "" || len(r.Placements) == 0 && r.Waiting == nil && r.EndReason == "" {
		return fmt.Errorf("%w: reservation without name or placement", ErrMalformed)
	}
	if r.EndReason != "" && r.History == nil {
		return fmt.Errorf("reservation %q: %w: it ended at no time", r.Name, ErrMalformed)
	}
	if s.reservations[r.Name] != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, ErrTaken)
	}
	if err := errors.Join(checkAmounts(r.Amounts), checkAmounts(r.Wanted()), s.checkKeyFree(r.Requester, r.Key)); err != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, err)
	}
	if err := restorePlacements(s, r); err != nil {
		return err
	}
	if r.MeteredPlacement != 0 && r.Placement(r.MeteredPlacement) == nil {
		return fmt.Errorf("reservation %q: %w: placement %d is metered", r.Name, ErrMalformed, r.MeteredPlacement)
	}
	s.addReservation(r)
	return nil
}

func restorePlacements(s *State, r *Reservation) error {
	for i := range r.Placements {
		p := &r.Placements[i]
		c := s.Cluster(p.Provider)
		if c == nil || r.Skipped < 0 || p.Number != r.Skipped+int32(i)+1 {
			return fmt.Errorf("%w: placement %d of reservation %q is number %d on provider %q",
				ErrMalformed, r.Skipped+int32(i)+1, r.Name, p.Number, p.Provider)
		}
		if x := p.Excess; x != nil && checkAmounts(x.Amounts) != nil {
			return fmt.Errorf("placement %d of reservation %q: excess: %w", p.Number, r.Name, ErrMalformed)
		}
		if err := errors.Join(checkAmounts(p.Amounts), p.Price.checkStored()); err != nil {
			return fmt.Errorf("placement %d of reservation %q: %w", p.Number, r.Name, err)
		}
		p.Provider, p.Price = c.ClusterID, s.shared.internPrice(p.Price)
		if !p.ProviderGone {
			c.holds[brokerv1alpha1.PlacementName(r.Name, p.Number)] = r.HeldBy(p)
		}
	}
	return nil
}

func restoreQuote(s *State, q *Quote) error {
	if q == nil || q.Name == "" || s.Cluster(q.Provider) == nil {
		return fmt.Errorf("%w: quote without name or provider", ErrMalformed)
	}
	if s.quotes.Named(q.Name) != nil {
		return fmt.Errorf("quote %q: %w", q.Name, ErrTaken)
	}
	if err := errors.Join(checkAmounts(q.Amounts), q.Price.checkStored(), s.checkKeyFree(q.Requester, q.Key)); err != nil {
		return fmt.Errorf("quote %q: %w", q.Name, err)
	}
	q.Price = s.shared.internPrice(q.Price)
	s.quotes.addQuote(q)
	if q.Ended == "" {
		s.Cluster(q.Provider).quoted[q.Name] = q
	}
	return nil
}
