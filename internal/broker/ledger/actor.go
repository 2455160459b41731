package ledger

import (
	"fmt"
	"strings"
)

// Actor is who caused an event:
//
//	rome:alice   a user of cluster rome, by the name that rome's agent reports
//	:bob         a user of the broker's cluster
//	:            a user of the broker's cluster whose name is unknown
//	deadlines    a part of the broker
//
// "" means the usual author of such an event: the requester of a request, the cluster of an offer,
// the side of a placement that sends a report, or the broker for a Move. Cluster IDs contain no
// colon.
type Actor string

// The parts of the broker that end reservations.
const (
	// Deadlines ends reservations and quotes whose time is over, and reservations that are idle for
	// too long.
	Deadlines Actor = "deadlines"
	// Placing ends reservations that no provider can serve any longer.
	Placing Actor = "placing"
	// Queueing ends reservations that have waited in the queue for as long as they may.
	Queueing Actor = "queue"
	// Recovery ends reservations that their requester does not claim after a restore.
	Recovery Actor = "recovery"
)

// maxActor is the length in bytes of the longest actor: a cluster ID, a colon and a name.
const maxActor = 400

// UserOf returns the actor for a user of a member cluster, "" if its agent does not report the
// name.
func UserOf(clusterID, name string) Actor {
	if name == "" {
		return ""
	}
	return Actor(clusterID + ":" + name)
}

// Administrator returns the actor for a user of the broker's cluster. name is "" if it is unknown.
func Administrator(name string) Actor { return Actor(":" + name) }

// String returns the actor in words, for display; "" for no actor.
func (a Actor) String() string {
	cluster, name, isUser := strings.Cut(string(a), ":")
	switch {
	case a == "":
		return ""
	case !isUser:
		return "the broker (" + string(a) + ")"
	case cluster == "" && name == "":
		return "an unnamed user of the broker's cluster"
	case cluster == "":
		return name
	default:
		return name + ", as reported by " + cluster
	}
}

func (a Actor) check() error {
	if len(a) > maxActor {
		return fmt.Errorf("%w: the actor has %d bytes, the most is %d", ErrMalformed, len(a), maxActor)
	}
	return nil
}

// ActorOf returns the actor behind a pointer that the book stores, "" for nil.
func ActorOf(stored *Actor) Actor {
	if stored == nil {
		return ""
	}
	return *stored
}

// internActor returns a pointer that all reservations with this actor share, nil for "". It saves
// memory, because a few users make most requests.
func (s shared) internActor(a Actor) *Actor {
	if a == "" {
		return nil
	}
	return internIn(s.actors, a, &a)
}

// internActors replaces the actors of a new or restored reservation with shared pointers.
func (s shared) internActors(r *Reservation) {
	r.By = s.internActor(ActorOf(r.By))
	if h := r.History; h != nil {
		h.EndedBy, h.ChangedBy = s.internActor(ActorOf(h.EndedBy)), s.internActor(ActorOf(h.ChangedBy))
	}
}
