package ledger

import (
	"time"

	"github.com/mehdiazizian/liqo-resource-broker/internal/lending"
	"github.com/mehdiazizian/liqo-resource-broker/internal/quantity"
	"github.com/mehdiazizian/liqo-resource-broker/internal/terms"
)

// Event is one change. Exactly one of its pointers is set.
type Event struct {
	// At is the broker's time of the change.
	At time.Time `json:"at"`

	Offer        *Offer        `json:"offer,omitempty"`
	Reserve      *Reserve      `json:"reserve,omitempty"`
	Move         *Move         `json:"move,omitempty"`
	Acknowledge  *PlacementRef `json:"acknowledge,omitempty"`
	NodeReady    *NodeReady    `json:"nodeReady,omitempty"`
	Withdraw     *Withdraw     `json:"withdraw,omitempty"`
	ProviderGone *PlacementRef `json:"providerGone,omitempty"`
	ConsumerGone *PlacementRef `json:"consumerGone,omitempty"`
	End          *End          `json:"end,omitempty"`
	Renew        *Renew        `json:"renew,omitempty"`
	Shut         *Shut         `json:"shut,omitempty"`
	Forget       *Forget       `json:"forget,omitempty"`
	Lineage      *Lineage      `json:"lineage,omitempty"`
	Announced    *Announced    `json:"announced,omitempty"`
	Adopt        *Adopt        `json:"adopt,omitempty"`
	Claim        *Claim        `json:"claim,omitempty"`
	Change       *Change       `json:"change,omitempty"`
	Enqueue      *Enqueue      `json:"enqueue,omitempty"`
	Grant        *Grant        `json:"grant,omitempty"`
	Preempt      *Preempt      `json:"preempt,omitempty"`
	Settle       *Settle       `json:"settle,omitempty"`
	Restate      *Restate      `json:"restate,omitempty"`
	Reach        *Reach        `json:"reach,omitempty"`
	Heal         *Heal         `json:"heal,omitempty"`
	Keep         *Keep         `json:"keep,omitempty"`
	Take         *Take         `json:"take,omitempty"`
	LetGo        *LetGo        `json:"letGo,omitempty"`
	Ceilings     *Ceilings     `json:"ceilings,omitempty"`
	Recall       *Recall       `json:"recall,omitempty"`
	Close        *Close        `json:"close,omitempty"`
	Exceed       *Exceed       `json:"exceed,omitempty"`
	Usage        *Usage        `json:"usage,omitempty"`
	LiftPauses   *LiftPauses   `json:"liftPauses,omitempty"`
}

// Offer is what one cluster has to lend, less what it uses itself. It replaces
// the cluster's former offer.
type Offer struct {
	ClusterID   string `json:"clusterID"`
	ClusterName string `json:"clusterName,omitempty"`
	Endpoint    string `json:"endpoint,omitempty"`
	Region      string `json:"region,omitempty"`
	Zone        string `json:"zone,omitempty"`
	// Agent is true when the cluster's agent spoke, false for a hand-written
	// offer. Once an agent spoke, the cluster has one for ever.
	Agent       bool             `json:"agent,omitempty"`
	Capacity    quantity.Amounts `json:"capacity"`
	Allocatable quantity.Amounts `json:"allocatable"`
	// Allocated is what the cluster's own pods request.
	Allocated quantity.Amounts `json:"allocated,omitempty"`
	// Used is what runs for each placement, by placement name.
	Used map[string]quantity.Amounts `json:"used,omitempty"`
	// UsedApart is whether Used is that of the former offer, until events of kind Usage
	// change it: one record does not hold the usage of every cluster.
	UsedApart bool    `json:"usedApart,omitempty"`
	Shapes    []Shape `json:"shapes,omitempty"`
	// OverSubscription is how many times its resources may be promised, if the ceilings
	// allow it.
	OverSubscription quantity.Ratios `json:"overSubscription,omitempty"`
	Cost             *Cost           `json:"cost,omitempty"`
	// Labels and Claims are what requests can ask for.
	Labels map[string]string `json:"labels,omitempty"`
	Claims map[string]string `json:"claims,omitempty"`
	// Lending says whom the cluster lends to, nil for everybody; the ledger only keeps it.
	Lending *lending.Terms `json:"lending,omitempty"`
	// Source is the object a hand-written offer stands in.
	Source *Manifest `json:"source,omitempty"`
}

// Shape counts nodes that have the same amounts free.
type Shape struct {
	Count int32            `json:"count"`
	Free  quantity.Amounts `json:"free"`
	// Labels that these nodes have, of those that the cluster shows.
	Labels map[string]string `json:"labels,omitempty"`
}

// Cost is a cluster's prices as decimal strings, as it advertised them.
type Cost struct {
	CPU       string            `json:"cpu,omitempty"`
	Memory    string            `json:"memory,omitempty"`
	Resources map[string]string `json:"resources,omitempty"`
	Storage   string            `json:"storage,omitempty"`
	Egress    string            `json:"egress,omitempty"`
	Currency  string            `json:"currency,omitempty"`
}

// ObjectRef names an object in the broker cluster.
type ObjectRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// Manifest is an object in which somebody wrote an offer by hand.
type Manifest struct {
	ObjectRef
	// Digest of what was written, so that a change is told from a repetition.
	Digest string `json:"digest"`
}

// Reserve grants a reservation its first placement.
type Reserve struct {
	Name      string `json:"name"`
	Key       string `json:"key"`
	Digest    string `json:"digest"`
	Requester string `json:"requester"`
	Tenant    string `json:"tenant,omitempty"`
	Priority  int32  `json:"priority,omitempty"`
	// Queue is whether it waits where no cluster can hold it, at first or later.
	Queue   bool             `json:"queue,omitempty"`
	Amounts quantity.Amounts `json:"amounts"`
	// Target is the provider that was asked for, "" for any.
	Target string `json:"target,omitempty"`
	// Duration is how long it is held; 0 means as long as it is renewed.
	Duration time.Duration `json:"duration,omitempty"`
	// Until is when it ends unless it is renewed.
	Until    time.Time `json:"until"`
	Provider string    `json:"provider"`
	// Patient is whether it stays with a provider that is lost.
	Patient bool `json:"patient,omitempty"`
	// Wait is how long it waits at most; 0 leaves that to the configuration.
	Wait time.Duration `json:"wait,omitempty"`
	// Object is the Reservation a user made in the broker cluster; nil for one that
	// an agent asked for.
	Object *ObjectRef `json:"object,omitempty"`
	// Explanation is the decision as it is shown; the ledger does not read it.
	Explanation Explanation `json:"explanation,omitempty"`
	// Terms are what every provider of it has to meet, nil for none; the ledger only keeps
	// them. Demands reads them.
	*terms.Terms
}

// Demands are what every provider has to meet.
func (r *Reserve) Demands() terms.Terms {
	if r.Terms == nil {
		return terms.Terms{}
	}
	return *r.Terms
}

// Move grants another placement on another provider.
type Move struct {
	Name        string      `json:"name"`
	Provider    string      `json:"provider"`
	Explanation Explanation `json:"explanation,omitempty"`
}

// PlacementRef names one placement.
type PlacementRef struct {
	Name      string `json:"name"`
	Placement int32  `json:"placement"`
}

// NodeReady says whether the consumer's virtual node is Ready.
type NodeReady struct {
	PlacementRef
	Ready bool `json:"ready"`
}

// Withdraw gives one placement up; its capacity stays held until the provider
// says that it is gone.
type Withdraw struct {
	PlacementRef
	Reason string `json:"reason"`
	// Refused is whether the provider itself gave it up.
	Refused bool `json:"refused,omitempty"`
}

// End starts the release of a reservation.
type End struct {
	Name   string    `json:"name"`
	Reason EndReason `json:"reason"`
	// Message says more, for people.
	Message string `json:"message,omitempty"`
	// Explanation, where it is given, is why it failed in the end.
	Explanation Explanation `json:"explanation,omitempty"`
}

// EndReason is why a reservation ends.
type EndReason string

// Reasons of an End.
const (
	// EndReleased: the requester or a user gave it back.
	EndReleased EndReason = "Released"
	// EndExpired: its time is over.
	EndExpired EndReason = "Expired"
	// EndFailed: no provider is left that could serve it.
	EndFailed EndReason = "Failed"
	// EndPreempted: a reservation of a higher priority took its place.
	EndPreempted EndReason = "Preempted"
)

// Renew moves the end of a reservation that has no duration.
type Renew struct {
	Name  string    `json:"name"`
	Until time.Time `json:"until"`
}

// Shut makes a key unusable that never had a reservation.
type Shut struct {
	Requester string `json:"requester"`
	Key       string `json:"key"`
}

// Forget drops reservations that are over, and shut keys, from the book.
type Forget struct {
	Names []string `json:"names,omitempty"`
	Keys  []Shut   `json:"keys,omitempty"`
}

// Reservation is the name of the one reservation that the event is about, "" if
// it is about none or several.
//
//nolint:gocyclo // a case for every kind of event
func (e *Event) Reservation() string {
	switch {
	case e.Reserve != nil:
		return e.Reserve.Name
	case e.Take != nil:
		return e.Take.Name
	case e.Move != nil:
		return e.Move.Name
	case e.Acknowledge != nil:
		return e.Acknowledge.Name
	case e.NodeReady != nil:
		return e.NodeReady.Name
	case e.Withdraw != nil:
		return e.Withdraw.Name
	case e.ProviderGone != nil:
		return e.ProviderGone.Name
	case e.ConsumerGone != nil:
		return e.ConsumerGone.Name
	case e.End != nil:
		return e.End.Name
	case e.Renew != nil:
		return e.Renew.Name
	case e.Adopt != nil:
		return e.Adopt.Name
	case e.Claim != nil:
		return e.Claim.Name
	case e.Change != nil:
		return e.Change.Name
	case e.Enqueue != nil:
		return e.Enqueue.reservation()
	case e.Grant != nil:
		return e.Grant.Name
	case e.Preempt != nil:
		return e.Preempt.Name
	case e.Settle != nil:
		return e.Settle.Name
	case e.Restate != nil:
		return e.Restate.Name
	case e.Heal != nil:
		return e.Heal.Name
	case e.Recall != nil:
		return e.Recall.Name
	case e.Close != nil:
		return e.Close.Name
	case e.Exceed != nil:
		return e.Exceed.Name
	default:
		return ""
	}
}
