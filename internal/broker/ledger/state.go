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
	// keys are those that name a reservation, shut those that never will, since when.
	keys     map[keyRef]*Reservation
	shut     map[keyRef]time.Time
	position uint64
	// branches are the lineages, oldest first.
	branches []Branch
	key      []byte
	shared   shared
	quotes   quotes
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

// Cluster is what the book knows of one cluster.
type Cluster struct {
	Offer
	// OfferedAt is when Offer was made.
	OfferedAt time.Time
	// AgentSince is when its agent spoke for the first time; zero before.
	AgentSince time.Time
	// LostSince is when its agent was heard last, where it is silent for long; else zero.
	LostSince time.Time
	// AnnouncedIn is the lineage in which it announced what it has, "" before.
	AnnouncedIn string
	// Record of what was granted here.
	Record Record
	// Providing is how the cluster kept its promises lately, Consuming how it kept within
	// what it was granted. Each is nil where nothing went wrong.
	Providing, Consuming *Conduct
	// holds is what each live placement holds here, by placement name.
	holds map[string]quantity.Amounts
	// quoted are the quotes for which capacity is held here, by name.
	quoted map[string]*Quote
	// claimed is Σ max(held, used) over holds and over what runs without a hold, and what
	// quotes hold.
	claimed quantity.Amounts
	// stretch is OverSubscription as far as the ceilings allow it.
	stretch quantity.Ratios
}

// Held is the sum of what placements and quotes hold.
func (c *Cluster) Held() quantity.Amounts {
	sum := c.sumQuoted()
	for _, h := range c.holds {
		sum.AddInPlace(h)
	}
	return sum
}

// Claimed is what placements hold or use, whichever is more, for each, and what quotes
// hold.
func (c *Cluster) Claimed() quantity.Amounts { return c.claimed }

// Available is what can still be granted: never below zero.
func (c *Cluster) Available() quantity.Amounts {
	free := c.Lendable().Sub(c.Allocated).Sub(c.claimed)
	for name, amount := range free {
		free[name] = max(amount, 0)
	}
	return free
}

// Placements is how many placements hold capacity here.
func (c *Cluster) Placements() int { return len(c.holds) }

func (c *Cluster) recount() {
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

// hold and drop change claimed by what one placement adds or no longer adds:
// their cost does not grow with the placements of the cluster. Neither saturates,
// and so each undoes the other: the sum of holds is at most one Limit, that of
// usage less (Offer.checkAgainst).
func (c *Cluster) hold(placement string, amounts quantity.Amounts) {
	c.claimed = c.claimed.Add(amounts.Max(c.Used[placement]).Sub(c.Used[placement]))
	c.holds[placement] = amounts
}

func (c *Cluster) drop(placement string) {
	c.claimed = c.claimed.Sub(c.holds[placement].Max(c.Used[placement]).Sub(c.Used[placement]))
	delete(c.holds, placement)
}

// Reservation is one entry of the book.
type Reservation struct {
	Reserve
	CreatedAt Instant
	// EndReason is "" while it stands.
	EndReason EndReason
	// Placements have consecutive numbers.
	Placements []Placement
	// Skipped is the number before the first of them: 0, unless placements before it are
	// lost and nobody announced them.
	Skipped int32 `json:",omitempty"`
	// Waiting is its place in the queue; nil where it does not wait.
	Waiting *Waiting `json:",omitempty"`
	// Notice says that its placement has to make room; nil if it has not.
	Notice *Notice `json:",omitempty"`
	// History is nil before there is any.
	*History
	// Unclaimed is whether it stands on its provider's word alone: see Adopt.
	Unclaimed bool `json:",omitempty"`
	// Generation of the last Edit, 0 before the first.
	Generation int64 `json:",omitempty"`
	// Pending is a change of amounts that is not answered; nil if there is none.
	Pending *Pending `json:",omitempty"`
	// Refusal of the last Edit, nil where it was not refused.
	Refusal *Refusal `json:",omitempty"`
	// Changed is the position of the last event that touched it.
	Changed uint64
}

// History is what most reservations do not have yet. Whoever has one keeps it as it is:
// another one takes its place.
type History struct {
	// EndMessage says more of the end, for people, EndedAt when it came.
	EndMessage string
	EndedAt    time.Time
	// GrantedAt is when one that had to wait got its first placement; else zero.
	GrantedAt time.Time `json:",omitzero"`
	// Left is the number of the placement that was given up last, 0 where that is the
	// newest one: that may have been given up beside an older one.
	Left int32 `json:",omitempty"`
	// CallBack is what its provider wants back; CalledBack reads it.
	CallBack *CallBack `json:",omitempty"`
	// Closed is whether its requester's agent is not waited for; see Close.
	Closed bool `json:",omitempty"`
}

func (r *Reservation) remember(change func(*History)) {
	var h History
	if r.History != nil {
		h = *r.History
	}
	change(&h)
	if r.History = &h; r.EndReason == "" && h == (History{}) {
		r.History = nil
	}
}

// Placement is one try to serve a reservation on one provider.
type Placement struct {
	Number int32
	// Ready is whether the consumer's virtual node is Ready.
	Ready bool
	// EverReady is whether it was at least once.
	EverReady    bool
	ProviderGone bool
	ConsumerGone bool
	Provider     string
	// AssignedAt is when it was granted.
	AssignedAt Instant
	// AcknowledgedAt is when the provider accepted; zero before.
	AcknowledgedAt Instant
	// Withdrawn is why the placement was given up before the reservation's end.
	Withdrawn string
	// Amounts that it holds where these are others than the reservation's, else nil.
	Amounts quantity.Amounts `json:",omitempty"`
	// Excess is what its requester ran beyond it; nil, as nearly always, for nothing.
	Excess *Excess `json:",omitempty"`
}

// PlacementName names slice, virtual node and instruction of a placement.
func PlacementName(reservation string, number int32) string {
	return fmt.Sprintf("%s-%d", reservation, number)
}

// Current is the newest placement that was not given up before the reservation's end;
// where all were, the one that was last; nil while it waits for the first one.
func (r *Reservation) Current() *Placement {
	for i := len(r.Placements) - 1; i >= 0; i-- {
		if p := &r.Placements[i]; p.Withdrawn == "" {
			return p
		}
	}
	if r.History != nil && r.Left != 0 {
		return r.Placement(r.Left)
	}
	return r.Placement(r.last())
}

// last is the number of the newest placement, 0 before the first.
func (r *Reservation) last() int32 { return r.Skipped + int32(len(r.Placements)) }

// Placement returns the placement with that number, nil if there is none.
func (r *Reservation) Placement(number int32) *Placement {
	if number <= r.Skipped || number > r.last() {
		return nil
	}
	return &r.Placements[number-r.Skipped-1]
}

// Stands is whether the placement is still wanted; none, nil, never is.
func (r *Reservation) Stands(p *Placement) bool {
	return p != nil && r.EndReason == "" && p.Withdrawn == ""
}

// Size is how many clusters and reservations are in the book.
func (s *State) Size() int { return len(s.clusters) + len(s.reservations) }

// Position of the last event that was applied.
func (s *State) Position() uint64 { return s.position }

// Cluster returns what is known of a cluster, nil if nothing is. The caller must
// not change it.
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

// ByKey returns the reservation that a requester asked for with a key, and
// whether the key is shut.
func (s *State) ByKey(requester, key string) (r *Reservation, shut bool) {
	_, shut = s.shut[keyRef{requester, key}]
	return s.keys[keyRef{requester, key}], shut
}

// HasAgent is whether an agent ever spoke for the cluster.
func (s *State) HasAgent(clusterID string) bool {
	c := s.clusters[clusterID]
	return c != nil && c.Agent
}
