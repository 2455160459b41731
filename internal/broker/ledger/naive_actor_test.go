package ledger

import (
	"fmt"
	"strings"
)

// naiveActors are the actors that asked for an entry, changed it last, and ended it.
type naiveActors struct{ asked, changed, ended Actor }

// longActor is longer than an actor may be, so events with it are refused.
var longActor = UserOf("rome", strings.Repeat("a", maxActor))

// actors are the actors of random events.
var actors = []Actor{
	"", "", "rome:alice", ":", ":bob", Deadlines, Queueing, UserOf("paris", `CORP\"eve", {"x":1}`), UserOf("rome", "zoë <z@example.com>"),
}

// anyActor returns the actor of the next event. One in a thousand is refused.
func (m *machine) anyActor() Actor {
	if m.tried%1000 == 500 {
		return longActor
	}
	return actors[m.tried%len(actors)]
}

// noteActor notes the actor of an accepted event.
func (n *naive) noteActor(e *Event) {
	name := e.Change.subject()
	was := n.actors[name]
	switch e.Change.(type) {
	case *Reserve, *TakeQuote, *Claim:
		was.asked = e.By
	case *Enqueue, *Adopt:
		if _, known := n.actors[name]; !known {
			was.asked = e.By
		}
	case *Edit:
		was.changed = e.By
	case *End:
		was.ended = e.By
	}
	if name != "" {
		n.actors[name] = was
	}
	if f, ok := e.Change.(*Forget); ok {
		for _, name := range f.Names {
			delete(n.actors, name)
		}
	}
}

// actorsDiffer returns an error if the book names other actors.
func (n *naive) actorsDiffer(s *State) error {
	for name, want := range n.actors {
		r := s.Reservation(name)
		if r == nil {
			return fmt.Errorf("reservation %s of %+v is missing", name, want)
		}
		got := naiveActors{asked: ActorOf(r.By)}
		if r.History != nil {
			got.changed, got.ended = ActorOf(r.ChangedBy), ActorOf(r.EndedBy)
		}
		if got != want {
			return fmt.Errorf("reservation %s names %+v, want %+v", name, got, want)
		}
	}
	return nil
}
