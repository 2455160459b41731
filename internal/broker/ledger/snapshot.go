package ledger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	brokerv1alpha1 "github.com/mehdiazizian/liqo-resource-broker/api/broker/v1alpha1"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// Frozen is a copy of the book at one position. It can be encoded while the book changes.
type Frozen struct{ snapshot }

// Snapshot encodes the present book.
func (s *State) Snapshot() ([]byte, error) { return s.Freeze().Bytes() }

// Restore decodes a snapshot. Holds are not stored but derived from the placements, so the two
// cannot disagree.
func Restore(b []byte) (*State, error) {
	var in snapshot
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("reading a snapshot of the ledger: %w", err)
	}
	s := New()
	if err := s.restoreAll(&in); err != nil {
		return nil, fmt.Errorf("reading a snapshot of the ledger: %w", err)
	}
	return s, nil
}

// Freeze copies the parts that later events change in place. It takes a small part of the time
// of encoding.
func (s *State) Freeze() *Frozen {
	out := snapshot{Position: s.position, Branches: slices.Clone(s.lineages.branches), Key: s.lineages.key, Quotes: s.quotes.copyAll(), Ceilings: s.clusters.ceilings}
	for _, c := range s.clusters.byID {
		out.Clusters = append(out.Clusters, snapshotCluster{c.Offer, c.OfferedAt, c.AgentSince, c.AnnouncedIn, c.LostSince, c.Record, c.Providing.copyConduct(), c.Consuming.copyConduct(), c.Lifted})
	}
	// One allocation for all of them.
	copies := make([]Reservation, 0, len(s.reservations))
	for _, r := range s.reservations {
		copies = append(copies, r.copyReservation())
	}
	for i := range copies {
		out.Reservations = append(out.Reservations, &copies[i])
	}
	for ref, at := range s.shut {
		out.Shut = append(out.Shut, snapshotShut{Shut{ref.requester, ref.key}, at})
	}
	return &Frozen{out}
}

// Bytes encodes the whole book. Equal states give equal bytes.
func (f *Frozen) Bytes() ([]byte, error) {
	slices.SortFunc(f.Clusters, func(a, b snapshotCluster) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	slices.SortFunc(f.Reservations, func(a, b *Reservation) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(f.Shut, func(a, b snapshotShut) int { return a.Shut.compareKeys(b.Shut) })
	slices.SortFunc(f.Quotes, compareQuotes)
	b, err := f.marshalAll()
	if err != nil {
		return nil, fmt.Errorf("writing a snapshot of the ledger: %w", err)
	}
	return b, nil
}

type snapshot struct {
	Position     uint64            `json:"position"`
	Clusters     []snapshotCluster `json:"clusters,omitempty"`
	Reservations []*Reservation    `json:"reservations,omitempty"`
	Shut         []snapshotShut    `json:"shut,omitempty"`
	Branches     []Branch          `json:"branches,omitempty"`
	Quotes       []*Quote          `json:"quotes,omitempty"`
	Ceilings     Ceilings          `json:"ceilings,omitzero"`
	Key          []byte            `json:"key,omitempty"`
}

type snapshotCluster struct {
	Offer
	OfferedAt  time.Time `json:"offeredAt"`
	AgentSince time.Time `json:"agentSince,omitzero"`

	AnnouncedIn string    `json:"announcedIn,omitempty"`
	LostSince   time.Time `json:"lostSince,omitzero"`
	Record      Record    `json:"record,omitzero"`
	Providing   *Conduct  `json:"providing,omitempty"`
	Consuming   *Conduct  `json:"consuming,omitempty"`
	Lifted      string    `json:"lifted,omitempty"`
}

type snapshotShut struct {
	Shut
	At time.Time `json:"at"`
}

// copyReservation shares with r only values that events replace and never change.
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

// marshalAll encodes reservations one by one: they make up most of a book, and encoding/json
// needs three times the memory of its output.
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

func (s *State) restoreAll(in *snapshot) error {
	if err := in.Ceilings.checkAgainst(s); err != nil {
		return err
	}
	s.position, s.lineages, s.clusters.ceilings = in.Position, Lineages{in.Branches, in.Key}, in.Ceilings
	for _, c := range in.Clusters {
		if err := s.clusters.restoreCluster(&c); err != nil {
			return err
		}
	}
	for _, r := range in.Reservations {
		if err := s.restoreReservation(r); err != nil {
			return err
		}
	}
	for _, q := range in.Quotes {
		if err := s.restoreQuote(q); err != nil {
			return err
		}
	}
	for _, k := range in.Shut {
		if err := s.checkKeyFree(k.Requester, k.Key); err != nil {
			return err
		}
		s.shut[keyRef{k.Requester, k.Key}] = k.At
	}
	for _, c := range s.clusters.byID {
		c.recountClaimed()
	}
	return nil
}

func (cs *clusters) restoreCluster(c *snapshotCluster) error {
	if cs.byID[c.ClusterID] != nil {
		return fmt.Errorf("cluster %q: %w", c.ClusterID, ErrTaken)
	}
	if err := c.Offer.checkFields(); err != nil {
		return err
	}
	restored := &Cluster{
		Offer: c.Offer, OfferedAt: c.OfferedAt, AgentSince: c.AgentSince, AnnouncedIn: c.AnnouncedIn, LostSince: c.LostSince, Record: c.Record,
		Providing: c.Providing, Consuming: c.Consuming, Lifted: c.Lifted,
		holds: map[string]quantity.Amounts{}, quoted: map[string]*Quote{},
		stretch: cs.stretchOf(&c.Offer),
	}
	cs.byID[c.ClusterID] = restored
	cs.indexManifest(restored, nil)
	return nil
}

func (s *State) restoreReservation(r *Reservation) error {
	if r == nil || r.Name == "" || len(r.Placements) == 0 && r.Waiting == nil && r.EndReason == "" {
		return fmt.Errorf("%w: reservation without name or placement", ErrMalformed)
	}
	if r.EndReason != "" && r.History == nil {
		return fmt.Errorf("reservation %q: %w: it ended at no time", r.Name, ErrMalformed)
	}
	if s.reservations[r.Name] != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, ErrTaken)
	}
	if err := errors.Join(checkAmounts(r.Amounts), checkAmounts(r.Wanted())); err != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, err)
	}
	if err := s.checkKeyFree(r.Requester, r.Key); err != nil {
		return fmt.Errorf("reservation %q: %w", r.Name, err)
	}
	if err := s.restorePlacements(r); err != nil {
		return err
	}
	s.addReservation(r)
	return nil
}

func (s *State) restorePlacements(r *Reservation) error {
	for i := range r.Placements {
		p := &r.Placements[i]
		c := s.Cluster(p.Provider)
		if c == nil || r.Skipped < 0 || p.Number != r.Skipped+int32(i)+1 {
			return fmt.Errorf("%w: placement %d of reservation %q is number %d on provider %q",
				ErrMalformed, r.Skipped+int32(i)+1, r.Name, p.Number, p.Provider)
		}
		if err := checkAmounts(p.Amounts); err != nil {
			return fmt.Errorf("placement %d of reservation %q: %w", p.Number, r.Name, err)
		}
		if x := p.Excess; x != nil && checkAmounts(x.Amounts) != nil {
			return fmt.Errorf("placement %d of reservation %q: excess: %w", p.Number, r.Name, ErrMalformed)
		}
		p.Provider = c.ClusterID
		if !p.ProviderGone {
			c.holds[brokerv1alpha1.PlacementName(r.Name, p.Number)] = r.HeldBy(p)
		}
	}
	return nil
}

func (s *State) restoreQuote(q *Quote) error {
	if q == nil || q.Name == "" || s.Cluster(q.Provider) == nil {
		return fmt.Errorf("%w: quote without name or provider", ErrMalformed)
	}
	if s.quotes.Named(q.Name) != nil {
		return fmt.Errorf("quote %q: %w", q.Name, ErrTaken)
	}
	if err := checkAmounts(q.Amounts); err != nil {
		return fmt.Errorf("quote %q: %w", q.Name, err)
	}
	if err := s.checkKeyFree(q.Requester, q.Key); err != nil {
		return fmt.Errorf("quote %q: %w", q.Name, err)
	}
	s.quotes.addQuote(q)
	if q.Ended == "" {
		s.Cluster(q.Provider).quoted[q.Name] = q
	}
	return nil
}
