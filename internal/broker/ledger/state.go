package ledger

import (
	"fmt"
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
)

// State is the book. The zero value is not usable; see New. It is not safe for
// concurrent use.
type State struct {
	clusters     map[string]*Cluster
	manifests    map[objectName]*Cluster
	reservations map[string]*Reservation
	// keys holds the reservation of each key, shut the time at which each unusable key was
	// shut.
	keys     map[keyRef]*Reservation
	shut     map[keyRef]time.Time
	position uint64
	// branches are the lineages, oldest first.
	branches []Branch
	key      []byte
	shared   shared
	quotes   Quotes
	ceilings Ceilings
}

type keyRef struct{ requester, key string }

// New returns an empty book.
func New() *State {
	return &State{
		clusters:     map[string]*Cluster{},
		manifests:    map[objectName]*Cluster{},
		reservations: map[string]*Reservation{},
		keys:         map[keyRef]*Reservation{},
		shut:         map[keyRef]time.Time{},
		shared:       newShared(),
		quotes:       newQuotes(),
	}
}

// Cluster is one cluster in the book.
type Cluster struct {
	Offer
	// OfferedAt is when Offer was made.
	OfferedAt time.Time
	// AgentSince is when its agent first made an offer; zero before.
	AgentSince time.Time
	// LostSince is when its agent last reported, if it is silent; else zero.
	LostSince time.Time
	// AnnouncedIn is the newest lineage in which it announced its holdings; "" for none.
	AnnouncedIn string
	// Record counts the outcomes of the placements on the cluster.
	Record Record
	// Providing counts the cluster's recent failures as a provider, Consuming those as a
	// consumer that exceeded its grants. Each is nil if there are none.
	Providing, Consuming *Conduct
	// Lifted is the mark with which an operator last lifted its pauses; "" for none.
	Lifted string
	// holds holds the locked amounts of each placement here, by placement name.
	holds map[string]quantity.Amounts
	// quoted are the quotes that hold capacity here, by name.
	quoted map[string]*Quote
	// claimed is the sum of max(held, used) over all placements, with or without a hold, plus
	// the amounts of quotes.
	claimed quantity.Amounts
	// stretch is OverSubscription bounded by the ceilings.
	stretch quantity.Ratios
}

// Held sums the amounts that placements and quotes hold.
func (c *Cluster) Held() quantity.Amounts {
	sum := c.sumQuoted()
	for _, h := range c.holds {
		sum.AddInPlace(h)
	}
	return sum
}

// Claimed returns the sum of the larger of held and used for each placement, plus the amounts
// of quotes.
func (c *Cluster) Claimed() quantity.Amounts { return c.claimed }

// Available returns what can still be granted, never below zero.
func (c *Cluster) Available() quantity.Amounts {
	free := c.Lendable().Sub(c.Allocated).Sub(c.claimed)
	for name, amount := range free {
		free[name] = max(amount, 0)
	}
	return free
}

// Placements returns how many placements hold capacity here.
func (c *Cluster) Placements() int { return len(c.holds) }

func (c *Cluster) recountClaimed() {
	claimed := c.sumQuoted()
	for name, held := range c.holds {
		claimed.AddInPlace(held.Max(c.Used[name]))
	}
	for name, used := range c.Used {
		if _, ok := c.holds[name]; !ok {
			claimed.AddInPlace(used)
		}
	}
	c.claimed = claimed
}

// addHold and removeHold change claimed by the difference that one placement makes, so their
// cost does not depend on the number of placements. Neither saturates, so each undoes the
// other: the sum of holds is at most quantity.Limit, and the sum of usage is less (see
// Offer.checkAgainst).
func (c *Cluster) addHold(placement string, amounts quantity.Amounts) {
	c.claimed = c.claimed.Add(amounts.Max(c.Used[placement]).Sub(c.Used[placement]))
	c.holds[placement] = amounts
}

func (c *Cluster) removeHold(placement string) {
	c.claimed = c.claimed.Sub(c.holds[placement].Max(c.Used[placement]).Sub(c.Used[placement]))
	delete(c.holds, placement)
}

// Reservation is one entry of the book.
type Reservation struct {
	Reserve
	CreatedAt Instant
	// EndReason is "" until the reservation ends.
	EndReason EndReason
	// Placements have consecutive numbers.
	Placements []Placement
	// Skipped is the number before the first placement. It is 0 unless earlier placements were
	// lost and not announced.
	Skipped int32 `json:",omitempty"`
	// Waiting is set while the reservation waits in the queue.
	Waiting *Waiting `json:",omitempty"`
	// Notice is set while its placement has to make room.
	Notice *Notice `json:",omitempty"`
	// History is nil as long as all its fields are zero.
	*History
	// Unclaimed is true if only the provider has confirmed the reservation, see Adopt.
	Unclaimed bool `json:",omitempty"`
	// Generation is that of the last Edit, 0 before the first.
	Generation int64 `json:",omitempty"`
	// Pending is a change of amounts that the provider has not answered, nil if there is none.
	Pending *Pending `json:",omitempty"`
	// Refusal is that of the last Edit, nil if it was not refused.
	Refusal *Refusal `json:",omitempty"`
	// Changed is the position of the last event that changed it.
	Changed uint64
}

// History holds fields that most reservations do not need, to save memory. It is never changed
// in place: views share it.
type History struct {
	// EndMessage explains the end to users, EndedAt is its time.
	EndMessage string
	EndedAt    time.Time
	// GrantedAt is when a reservation that had to wait got its first placement; else zero.
	GrantedAt time.Time `json:",omitzero"`
	// Left is the number of the placement that was given up last, 0 for the newest one.
	Left int32 `json:",omitempty"`
	// CallBack is the recall by its provider; use CalledBack.
	CallBack *CallBack `json:",omitempty"`
	// Closed is true once the broker no longer waits for the requester's agent, see Close.
	Closed bool `json:",omitempty"`
}

func (r *Reservation) updateHistory(change func(*History)) {
	var h History
	if r.History != nil {
		h = *r.History
	}
	change(&h)
	if r.History = &h; r.EndReason == "" && h == (History{}) {
		r.History = nil
	}
}

// Placement is one attempt to serve a reservation on one provider.
type Placement struct {
	Number int32
	// Ready reports the state of the consumer's virtual node.
	Ready bool
	// EverReady is true once the node has been Ready.
	EverReady    bool
	ProviderGone bool
	ConsumerGone bool
	Provider     string
	// AssignedAt is when it was granted.
	AssignedAt Instant
	// AcknowledgedAt is when the provider accepted it; zero before.
	AcknowledgedAt Instant
	// Withdrawn is why the placement was given up before the reservation's end; "" if it was
	// not.
	Withdrawn string
	// Amounts are the amounts that it holds if they differ from the reservation's, else nil.
	Amounts quantity.Amounts `json:",omitempty"`
	// Excess is how far its requester exceeded the grant; nil for not at all.
	Excess *Excess `json:",omitempty"`
}

// PlacementName returns the name of a placement's slice, virtual node and instructions.
func PlacementName(reservation string, number int32) string {
	return fmt.Sprintf("%s-%d", reservation, number)
}

// Current returns the newest placement that was not given up before the reservation's end. If
// all were given up, it returns the last of them. It returns nil before the first placement.
func (r *Reservation) Current() *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if p := &r.Placements[i]; p.Withdrawn == "" {
			return p
		}
	}
	if r.History != nil && r.Left != 0 {
		return r.Placement(r.Left)
	}
	return r.Placement(r.lastNumber())
}

// lastNumber returns the number of the newest placement, 0 before the first.
func (r *Reservation) lastNumber() int32 { return r.Skipped + int32(len(r.Placements)) }

// Placement returns the placement with that number, nil if there is none.
func (r *Reservation) Placement(number int32) *Placement {
	if number <= r.Skipped || number > r.lastNumber() {
		return nil
	}
	return &r.Placements[number-r.Skipped-1]
}

// Stands reports whether the placement is neither given up nor ended; false for nil.
func (r *Reservation) Stands(p *Placement) bool {
	return p != nil && r.EndReason == "" && p.Withdrawn == ""
}

// Size returns how many clusters and reservations are in the book.
func (s *State) Size() int { return len(s.clusters) + len(s.reservations) }

// Position returns the position of the last event that was applied.
func (s *State) Position() uint64 { return s.position }

// Cluster returns a cluster by its ID, nil if there is none. The caller must not change it.
func (s *State) Cluster(id string) *Cluster { return s.clusters[id] }

// Clusters calls f for every cluster, in no order.
func (s *State) Clusters(f func(*Cluster)) {
	for _, c := range s.clusters {
		f(c)
	}
}

// Reservation returns a reservation by name, nil if there is none. The caller
// must not change it.
func (s *State) Reservation(name string) *Reservation { return s.reservations[name] }

// Reservations calls f for every reservation, in no order.
func (s *State) Reservations(f func(*Reservation)) {
	for _, r := range s.reservations {
		f(r)
	}
}

// ByKey returns the reservation of a requester's key, and reports whether the key is shut.
func (s *State) ByKey(requester, key string) (r *Reservation, shut bool) {
	_, shut = s.shut[keyRef{requester, key}]
	return s.keys[keyRef{requester, key}], shut
}

// HasAgent reports whether the cluster's agent has ever made an offer.
func (s *State) HasAgent(clusterID string) bool {
	c := s.clusters[clusterID]
	return c != nil && c.Agent
}
