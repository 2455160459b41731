package ledger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

type snapshot struct {
	Position     uint64            `json:"position"`
	Clusters     []snapshotCluster `json:"clusters,omitempty"`
	Reservations []*Reservation    `json:"reservations,omitempty"`
	Shut         []snapshotShut    `json:"shut,omitempty"`
}

type snapshotCluster struct {
	Offer
	OfferedAt  time.Time                   `json:"offeredAt"`
	AgentSince time.Time                   `json:"agentSince,omitzero"`
	Holds      map[string]quantity.Amounts `json:"holds,omitempty"`
}

type snapshotShut struct {
	Shut
	At time.Time `json:"at"`
}

// Snapshot writes the whole book. Equal states give equal bytes.
func (s *State) Snapshot() ([]byte, error) {
	out := snapshot{Position: s.position}
	for _, id := range slices.Sorted(maps.Keys(s.clusters)) {
		c := s.clusters[id]
		out.Clusters = append(out.Clusters, snapshotCluster{c.Offer, c.OfferedAt, c.AgentSince, c.holds})
	}
	for _, name := range slices.Sorted(maps.Keys(s.reservations)) {
		out.Reservations = append(out.Reservations, s.reservations[name])
	}
	for ref, entry := range s.keys {
		if entry.name == "" {
			out.Shut = append(out.Shut, snapshotShut{Shut{ref.requester, ref.key}, entry.shut})
		}
	}
	slices.SortFunc(out.Shut, func(a, b snapshotShut) int {
		return cmp.Or(cmp.Compare(a.Requester, b.Requester), cmp.Compare(a.Key, b.Key))
	})
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("writing a snapshot of the ledger: %w", err)
	}
	return b, nil
}

// Restore reads a snapshot.
func Restore(b []byte) (*State, error) {
	var in snapshot
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fmt.Errorf("reading a snapshot of the ledger: %w", err)
	}
	s := New()
	s.position = in.Position
	for _, c := range in.Clusters {
		if c.Holds == nil {
			c.Holds = map[string]quantity.Amounts{}
		}
		cluster := &Cluster{Offer: c.Offer, OfferedAt: c.OfferedAt, AgentSince: c.AgentSince, holds: c.Holds}
		cluster.recount()
		s.clusters[c.ClusterID] = cluster
	}
	for _, r := range in.Reservations {
		if len(r.Placements) == 0 {
			return nil, fmt.Errorf("reading a snapshot of the ledger: reservation %q has no placement", r.Name)
		}
		s.reservations[r.Name] = r
		s.keys[keyRef{r.Requester, r.Key}] = keyEntry{name: r.Name}
	}
	for _, k := range in.Shut {
		s.keys[keyRef{k.Requester, k.Key}] = keyEntry{shut: k.At}
	}
	return s, nil
}
